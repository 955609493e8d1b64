"""What this host, from which the load will be sent, does to a measurement."""

import importlib.metadata
import itertools
import resource
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from teardown.errors import UsageError
from teardown.load.probe import ProbeReport
from teardown.load.proxy import proxy_for
from teardown.observe.host import host_facts
from teardown.preflight.finding import Finding, Level, seconds
from teardown.targets.forward import DEFAULT_PORTS

PACKAGES = ("teardown", "kv_quant", "tuning", "iac", "runbooks", "reports")
DISTRIBUTION = "teardown-kit"
# The smallest free space at which a run of a few thousand requests still fits, bytes.
DISK_BYTES = 200_000_000
# Files that a load process has open beside its connections.
OTHER_FILES = 64
STEAL_RATIO = 0.02  # of all processor time: beyond it another guest of this machine holds up reads
CLOCK_WARN_S, CLOCK_INVALID_S = 0.001, 0.050  # DEFINITIONS.md, validity reason `clock`
LAG_WARN_RATIO = 0.05  # DEFINITIONS.md, validity reason `client_limited`


def names() -> Finding:
    """Fail when another distribution owns one of the six import names."""
    owners = importlib.metadata.packages_distributions()
    foreign = {name: [o for o in owners.get(name, []) if o != DISTRIBUTION] for name in PACKAGES}
    taken = {name: o for name, o in foreign.items() if o}
    if not taken:
        return Finding(name="import names", level="ok", text="all six packages are the kit's own")
    name, others = next(iter(taken.items()))
    return Finding(
        name="import names",
        level="fail",
        text=f"the distribution {others[0]!r} also installs a package called {name!r}",
        fix="install the kit into a virtual environment of its own",
    )


def files(concurrency: int | None) -> Finding:
    """Compare the limit of open files with the connections of the largest load, where one is known.

    The load process raises the soft limit to the hard one, so that the hard one counts.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = "none" if hard == resource.RLIM_INFINITY else str(hard)
    needed = (concurrency or 0) + OTHER_FILES
    text = f"limit {limit}" + (f"; the largest load needs {needed}" if concurrency else "")
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return Finding(name="file descriptors", level="ok", text=text)
    return Finding(
        name="file descriptors",
        level="fail",
        text=f"{text}, one for each request in flight: the others would fail here, not there",
        fix=f"raise the hard limit (`ulimit -Hn {max(65536, needed)}` as root), or lower the load",
    )


def disk(folder: Path) -> Finding:
    """Fail where the records of a run would not fit."""
    there = next((p for p in (folder, *folder.resolve().parents) if p.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    level: Level = "ok" if free > DISK_BYTES else "fail"
    return Finding(name="disk", level=level, text=f"{free / 1e9:.1f} GB free at {there.resolve()}")


def processor(before: dict[str, Any], after: dict[str, Any]) -> Finding:
    """Judge two rows of the host, taken around the probe: load, stolen time, governor."""
    facts = host_facts()
    count = facts["cpu_affinity"]
    load, governor = after["load_1min"], facts["governor"]
    stolen = _stolen_ratio(before["host_cpu_s"], after["host_cpu_s"])
    faults, fixes = [], []
    if load is not None and load > count:
        faults.append(f"load average {load:.1f}: other work delays the client's reads")
        fixes.append("send from an idle host")
    if stolen is not None and stolen > STEAL_RATIO:
        faults.append(f"{stolen:.0%} of the time is stolen by other guests of the machine")
        fixes.append("send from a machine with processors of its own")
    if governor == "powersave":
        faults.append("governor powersave: the client wakes late, and TTFT is charged with it")
        fixes.append("`cpupower frequency-set -g performance`")
    if faults:
        text = f"{count} for the client; {'; '.join(faults)}"
        return Finding(name="processors", level="warn", text=text, fix="; ".join(fixes))
    known = [
        f"{count} for the client",
        "load average unknown" if load is None else f"load average {load:.1f}",
        "stolen time unknown" if stolen is None else f"{stolen:.1%} stolen",
        *([f"governor {governor}"] if governor else []),
    ]
    return Finding(name="processors", level="ok", text=", ".join(known))


def clock(report: ProbeReport) -> Finding:
    """Judge the wall clock's drift and how late reads were, by what the probe saw."""
    moved = report.clock_moved_s
    if moved > CLOCK_WARN_S:
        return Finding(
            name="clock",
            level="fail" if moved > CLOCK_INVALID_S else "warn",
            text=f"the wall clock moved by {seconds(moved)} in {report.elapsed_s:.0f} s: kernel "
            "stamps lose their meaning",
            fix="stop what steps the clock of this host, and let it be slewed",
        )
    if report.num_reads == 0:
        text = "steady; nothing was received, so that how late reads are is unknown"
        return Finding(name="clock", level="ok", text=text)
    if report.lag_p50_s is None or report.lag_max_s is None:
        return Finding(
            name="clock",
            level="warn",
            text="no kernel receive stamps: how late the client reads cannot be told, nor charged",
            fix="send from 64-bit Linux",
        )
    text = (
        f"steady; by kernel stamps reads are {seconds(report.lag_p50_s)} late in the median, "
        f"{seconds(report.lag_max_s)} at most"
    )
    gap = _median_gap(report)
    if gap is not None and report.lag_p50_s > LAG_WARN_RATIO * gap:
        return Finding(
            name="clock",
            level="warn",
            text=f"{text}; gaps are {seconds(gap)}: runs would be client_limited",
            fix="send from an idle host",
        )
    return Finding(name="clock", level="ok", text=text)


def proxy(url: str) -> Finding:
    """Say which proxy of the environment stands between this host and `url`."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        found = proxy_for(parts.scheme, host, parts.port or DEFAULT_PORTS.get(parts.scheme, 0))
    except (UsageError, ValueError) as error:
        return Finding(name="proxy", level="fail", text=str(error), fix=f"export NO_PROXY={host}")
    if found is None:
        return Finding(name="proxy", level="ok", text="none in between")
    return Finding(
        name="proxy",
        level="warn",
        text=f"requests go through {found.host}:{found.port} (by the environment): its delay "
        "and its buffering are measured as if they were the stack's",
        fix=f"export NO_PROXY={host}",
    )


def _stolen_ratio(before: dict[str, float] | None, after: dict[str, float] | None) -> float | None:
    if before is None or after is None:
        return None
    total = sum(after.values()) - sum(before.values())
    return (after["steal"] - before["steal"]) / total if total > 0 else None


def _median_gap(report: ProbeReport) -> float | None:
    main = report.reply("main")
    stamps = main.request.chunk_s if main else []
    gaps = sorted(late - early for early, late in itertools.pairwise(stamps))
    return gaps[len(gaps) // 2] if gaps and gaps[len(gaps) // 2] > 0 else None
