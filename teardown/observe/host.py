"""Read what the kernel says of the engine's processes and of the host; Linux, unprivileged."""

import os
from pathlib import Path
from typing import Any

NANO = 1e-9
MICRO = 1e-6


class HostReader:
    """Rows about process `pid` with its children, and the host. pid None: the host alone.

    Counters (`cpu_s`, `run_delay_s`) are sums over the tasks that live at the sample; a task that
    ends takes its part with it, so a falling counter is a restart or an ended task, not time.
    """

    def __init__(self, pid: int | None, *, proc: Path = Path("/proc")) -> None:
        self.pid = pid
        self.proc = proc

    def row(self, t: float) -> dict[str, Any]:
        """Return one row of host.jsonl."""
        return {
            "t": t,
            "load_1min": _first_float(self.proc / "loadavg"),
            "host_cpu_s": self._host_cpu_s(),
            **self._process(),
            **self._throttling(),
        }

    def _host_cpu_s(self) -> dict[str, float] | None:
        """Return seconds by kind of the whole host, from /proc/stat."""
        line = _text(self.proc / "stat").split("\n", 1)[0].split()
        if len(line) < 9 or line[0] != "cpu":
            return None
        tick = os.sysconf("SC_CLK_TCK")
        names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
        return {name: int(value) / tick for name, value in zip(names, line[1:9], strict=True)}

    def _process(self) -> dict[str, Any]:
        if self.pid is None:
            return {"pid_reason": "no process id was granted"}
        pids = [pid for pid in self._family(self.pid) if (self.proc / str(pid)).exists()]
        if not pids:
            return {"pid_reason": f"process {self.pid} is gone"}
        cpu_s, run_delay_s, num_tasks = 0.0, 0.0, 0
        for pid in pids:
            for task in _children(self.proc / str(pid) / "task"):
                parts = _text(task / "schedstat").split()
                if len(parts) == 3:
                    cpu_s += int(parts[0]) * NANO
                    run_delay_s += int(parts[1]) * NANO
                    num_tasks += 1
        if num_tasks == 0:
            return {"pid_reason": f"/proc/{self.pid}/task/*/schedstat cannot be read"}
        return {
            "cpu_s": cpu_s,
            "run_delay_s": run_delay_s,
            "num_tasks": num_tasks,
            "num_processes": len(pids),
        }

    def _family(self, pid: int) -> list[int]:
        """Return `pid` and its descendants."""
        found, pending = [], [pid]
        while pending:
            one = pending.pop()
            found.append(one)
            for task in _children(self.proc / str(one) / "task"):
                pending += [int(child) for child in _text(task / "children").split()]
        return found

    def _throttling(self) -> dict[str, Any]:
        """Return the CPU throttling of the engine's control group (version 2), else of ours."""
        line = _text(self.proc / str(self.pid or "self") / "cgroup").strip().rpartition("::")[2]
        for folder in (Path("/sys/fs/cgroup") / line.lstrip("/"), Path("/sys/fs/cgroup")):
            stat = dict(
                parts
                for parts in (row.split() for row in _text(folder / "cpu.stat").splitlines())
                if len(parts) == 2
            )
            if "nr_throttled" in stat:
                return {
                    "cgroup_periods": int(stat.get("nr_periods", 0)),
                    "cgroup_throttled": int(stat["nr_throttled"]),
                    "cgroup_throttled_s": int(stat.get("throttled_usec", 0)) * MICRO,
                }
        return {}


def host_facts() -> dict[str, Any]:
    """Return what does not change during a run: CPUs of the host and of this process, governor."""
    governor = _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")).strip()
    return {
        "cpu_count": os.cpu_count(),
        "cpu_affinity": len(os.sched_getaffinity(0)),
        "governor": governor or None,
        "governor_reason": None if governor else "this host names no frequency governor",
    }


def _text(path: Path) -> str:
    """Return a file of procfs; empty when it is gone or not ours to read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _first_float(path: Path) -> float | None:
    parts = _text(path).split()
    return float(parts[0]) if parts else None
