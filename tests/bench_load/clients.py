"""The kit's load process and two plain clients on one paced server, one core each.

A stamp's error is the client's stamp of an event less the server's send time of that event. CPU is
processor time of the whole client process from the first send to the last answer dealt with: for
the kit that includes parsing, the records and the journal on disk.
"""

import ctypes
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from teardown.load.config import LoadConfig, LoadResult
from teardown.records import Schedule, ScheduledRequest, read, to_json
from tests.bench_load.server import CannotRun, PacedServer

RAMP_S = 1.0
PR_CAPBSET_DROP, CAP_SYS_NICE = 24, 23  # linux/prctl.h, linux/capability.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One client's run. errors_s: one an event. Means of TTFT, and of the time between the chunks
    of a stream, as the client has them and as the server wrote them; NaN where nobody asked.
    """

    name: str
    version: str
    num_events: int
    cpu_s: float
    elapsed_s: float
    errors_s: np.ndarray
    ttft_s: float
    true_ttft_s: float = math.nan
    gap_s: float = math.nan
    true_gap_s: float = math.nan

    @property
    def cpu_us_per_event(self) -> float:
        """Processor time per content event, in microseconds."""
        return self.cpu_s / self.num_events * 1e6

    def error_us(self, fraction: float) -> float:
        """Return a quantile of the stamp errors, in microseconds."""
        return float(np.quantile(self.errors_s, fraction)) * 1e6


def on_core(core: int | None, *, may_be_real_time: bool = True) -> Callable[[], None]:
    """Return what a new process does first: stay on `core`, give up real-time if it may not."""

    def prepare() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})
        if not may_be_real_time:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)

    return prepare


@contextmanager
def busy_loop(core: int) -> Iterator[None]:
    """Keep `core` busy with an ordinary process that never sleeps."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=on_core(core))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def plan(num_streams: int, per_stream: int) -> Schedule:
    """Return a closed schedule; `max_tokens` is a request's tag in the server's log."""
    items = [
        ScheduledRequest(
            request_id=f"r{number}",
            prompt=0,
            prompt_sha256="0" * 64,
            session=f"s{number}",
            turn=0,
            max_tokens=number + 1,
            lane=number % num_streams,
        )
        for number in range(num_streams * per_stream)
    ]
    return Schedule(
        workload="paced",
        kind="closed",
        seed=1,
        concurrency=num_streams,
        rate_per_s=None,
        prompts_sha256="0" * 64,
        requests=items,
    )


def prepare_load(folder: Path, url: str, schedule: Schedule) -> LoadConfig:
    """Write what a load process reads; return its configuration, also written to load.json."""
    (folder / "schedule.json").write_text(to_json(schedule), encoding="utf-8")
    prompt = {"messages": [{"role": "user", "content": "Say hello."}]}
    (folder / "prompts.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    config = LoadConfig(
        url=url,
        model="paced",
        schedule_path=str(folder / "schedule.json"),
        prompts_path=str(folder / "prompts.jsonl"),
        journal_path=str(folder / "requests.wal.jsonl"),
        result_path=str(folder / "result.json"),
        ramp_s=RAMP_S,
        timeout_s=120.0,
    )
    (folder / "load.json").write_text(to_json(config), encoding="utf-8")
    return config


def run_ours(
    folder: Path,
    server: PacedServer,
    core: int,
    num_streams: int,
    per_stream: int,
    *,
    may_be_real_time: bool = True,
) -> tuple[LoadConfig, LoadResult]:
    """Run `python -m teardown.load.process` on `core`; CannotRun where it fails."""
    config = prepare_load(folder, server.url, plan(num_streams, per_stream))
    process = subprocess.run(
        [sys.executable, "-m", "teardown.load.process", str(folder / "load.json")],
        preexec_fn=on_core(core, may_be_real_time=may_be_real_time),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise CannotRun(f"the load process failed: {process.stderr.strip()[-400:]}")
    return config, read(LoadResult, Path(config.result_path))


def ours(name: str, config: LoadConfig, result: LoadResult, server: PacedServer) -> Measured:
    """Match the journal's stamps to the server's log, once the server has stopped."""
    streams = server.streams()
    row_by_tag = {int(tag): row for row, tag in enumerate(streams.tag)}
    zero_s, errors, ttfts, gaps = 0.0, [], [], []
    for record in journal_records(Path(config.journal_path)):
        if isinstance(record, float):
            zero_s = record
            continue
        stamps = np.array(record["chunk_s"]) + zero_s
        errors.append(stamps - streams.sent_s[row_by_tag[int(record["request_id"][1:]) + 1]])
        ttfts.append(record["ttft_s"])
        gaps.append(np.diff(stamps).mean())
    return Measured(
        name=name,
        version="",
        num_events=sum(map(len, errors)),
        cpu_s=result.cpu_s,
        elapsed_s=result.elapsed_s,
        errors_s=np.concatenate(errors),
        ttft_s=float(np.mean(ttfts)),
        true_ttft_s=float(streams.ttft_s.mean()),
        gap_s=float(np.mean(gaps)),
        true_gap_s=streams.gap_s,
    )


def journal_records(path: Path) -> Iterator[float | dict[str, Any]]:
    """Yield the run's start on the monotonic clock, then the record of every request that ended."""
    with path.open("rb") as lines:
        for line in lines:
            document = orjson.loads(line)
            if document["event"] == "open":
                yield float(document["monotonic_zero"])
            elif document["event"] == "end":
                yield document["record"]


def run_peer(
    kind: str,
    python: Path,
    folder: Path,
    server: PacedServer,
    core: int,
    num_streams: int,
    per_stream: int,
) -> Measured:
    """Run one plain client on `core`."""
    out = folder / f"{kind}.json"
    script = Path(__file__).with_name("peer_client.py")
    words = [kind, server.url, num_streams, per_stream, RAMP_S, out]
    process = subprocess.run(
        [str(python), str(script), *map(str, words)],
        preexec_fn=on_core(core),
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise CannotRun(f"{kind} failed: {process.stderr.strip()[-400:]}")
    found = json.loads(out.read_text())
    errors_s = np.fromfile(f"{out}.errors")
    return Measured(
        name=kind,
        version=found["version"],
        num_events=len(errors_s),
        cpu_s=found["cpu_s"],
        elapsed_s=found["elapsed_s"],
        errors_s=errors_s,
        ttft_s=found["ttft_s"],
    )
