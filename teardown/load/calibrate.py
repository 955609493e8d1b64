"""Calibration: what the load process adds to its own numbers, measured against a known server.

Before a run, the real load process, in its own process and at its own priority, sends a few seconds
of the load that the run is about to make to the null server, which writes down when each request
arrived and when each chunk was sent. Every error below is a difference to those times; both clocks
are CLOCK_MONOTONIC of one host. Nothing of the client's is touched.

One process carries `CEILING_SHARE / (CPU seconds per event)` events a second. CPU seconds include
everything: reading, framing, parsing after the stream, the journal. A process that is asked for
more keeps its throughput (events share reads) and loses its stamps, which is why the ceiling is
computed from the cost and not looked for by overload.
"""

import contextlib
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from teardown.errors import Interrupted, TargetError
from teardown.load.config import LoadConfig, LoadResult, Progress
from teardown.load.journal import read_journal
from teardown.load.null_server import MODEL, Served
from teardown.load.record import percentile
from teardown.load.run import run_load
from teardown.records import (
    Calibration,
    Request,
    Schedule,
    ScheduledRequest,
    Spread,
    StreamShape,
    to_json,
)

CALIBRATION_S: Final = 2.5  # of sending; starting both processes comes on top
ANSWER_S: Final = 0.5  # length of one answer: short, so that there are many first chunks
FIRST_S: Final = 0.05
LEAST_CHUNKS: Final = 4
# Use of one core above which a process no longer reads at once: with M/D/1 queueing the mean wait
# at 0.7 is 1.2 services, about 35 microseconds, and grows without bound from there.
CEILING_SHARE: Final = 0.7
# What the null server is asked for at most, events a second. The cost of an event falls slowly with
# the rate, so that a ceiling above this is on the safe side.
MOST_EVENTS_PER_S: Final = 20_000.0
SERVER_STOP_S: Final = 20.0


def calibrate(shape: StreamShape, *, python: str = sys.executable) -> Calibration:
    """Replay `shape` to a load process and return what it added to the truth.

    A shape of more than MOST_EVENTS_PER_S is replayed with fewer streams. TargetError when the null
    server does not start or an answer of it was not read whole. python: the interpreter of the load
    process.
    """
    replayed = _at_most(shape, MOST_EVENTS_PER_S)
    gap_s = 1 / replayed.chunks_per_s
    num_chunks = max(LEAST_CHUNKS, round(ANSWER_S * replayed.chunks_per_s))
    schedule = _schedule(replayed.streams, FIRST_S + (num_chunks - 1) * gap_s)
    server_core, load_cores = split_cores(available_cores())
    with tempfile.TemporaryDirectory(prefix="teardown-calibration-") as name:
        folder = Path(name)
        log = folder / "sent.json"
        command = [
            *(sys.executable, "-m", "teardown.load.null_server", "--log", str(log)),
            *("--first-s", repr(FIRST_S), "--gap-s", repr(gap_s), "--chunks", str(num_chunks)),
            *("--chunk-bytes", str(replayed.chunk_bytes)),
            *(() if server_core is None else ("--core", str(server_core))),
        ]
        with _serving(command) as url, _confined_to(load_cores):
            config = _config(folder, url, schedule, replayed)
            try:
                result = run_load(config, _ignore, python)
            except Interrupted as error:
                raise Interrupted(
                    "stopped while the client was calibrated; nothing had been sent to the stack"
                ) from error
        served = [
            Served(key=key, arrived_s=arrived_s, sent_s=sent_s)
            for key, arrived_s, sent_s in json.loads(log.read_text(encoding="utf-8"))
        ]
        journal = read_journal(Path(config.journal_path))
    if set(result.counts) != {"ok"}:
        raise TargetError(f"the calibration against this host's own server failed: {result.counts}")
    zero_s = float(journal.attempts[0].opened["monotonic_zero"])
    return _record(shape, replayed, server_core, result, _errors(journal.requests, served, zero_s))


def split_cores(cores: Sequence[int]) -> tuple[int | None, list[int]]:
    """Return the core for the server and those for the load; None and all where there is one."""
    if len(cores) < 2:
        return None, list(cores)
    return cores[-1], list(cores[:-1])


def available_cores() -> list[int]:
    """Return the cores that this process may use; none where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))


def boot_id() -> str:
    """Return what names this host since its last start."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return os.uname().nodename


def _at_most(shape: StreamShape, events_per_s: float) -> StreamShape:
    if shape.events_per_s <= events_per_s:
        return shape
    return StreamShape(
        streams=max(1, math.floor(events_per_s / shape.chunks_per_s)),
        chunks_per_s=shape.chunks_per_s,
        chunk_bytes=shape.chunk_bytes,
        prompt_bytes=shape.prompt_bytes,
    )


def _schedule(streams: int, answer_s: float) -> Schedule:
    """Return a closed loop of CALIBRATION_S; each request has a max_tokens of its own, its key."""
    per_lane = max(2, math.ceil(CALIBRATION_S / answer_s))
    requests = [
        ScheduledRequest(
            request_id=f"calibration-{number:05d}",
            prompt=0,
            prompt_sha256="",
            session=f"s{number}",
            turn=0,
            max_tokens=number + 1,
            lane=number % streams,
        )
        for number in range(streams * per_lane)
    ]
    return Schedule(
        workload="calibration",
        kind="closed",
        seed=1,
        concurrency=streams,
        rate_per_s=None,
        prompts_sha256="",
        requests=requests,
    )


def _config(folder: Path, url: str, schedule: Schedule, shape: StreamShape) -> LoadConfig:
    prompt = {"messages": [{"role": "user", "content": "x" * shape.prompt_bytes}]}
    (folder / "schedule.json").write_text(to_json(schedule), encoding="utf-8")
    (folder / "prompts.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")
    return LoadConfig(
        url=url,
        model=MODEL,
        schedule_path=str(folder / "schedule.json"),
        prompts_path=str(folder / "prompts.jsonl"),
        journal_path=str(folder / "requests.wal.jsonl"),
        result_path=str(folder / "load.json"),
        timeout_s=30.0,
        ramp_s=ANSWER_S,  # spreads the streams evenly over one answer, as users are
    )


@contextlib.contextmanager
def _serving(command: Sequence[str]) -> Iterator[str]:
    """Run the null server for the block and yield its address; at the end it has written its log.

    It ends when its standard input does, so it cannot outlive us.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None and server.stderr is not None
            url = server.stdout.readline().strip()
            if not url:
                last = (server.stderr.read().strip().splitlines() or ["it said nothing"])[-1]
                raise TargetError(f"the null server for the calibration did not start: {last}")
            yield url
            server.communicate(timeout=SERVER_STOP_S)  # ends its input
        except subprocess.TimeoutExpired as error:
            raise TargetError("the null server for the calibration did not end") from error
        finally:
            if server.poll() is None:
                server.kill()


@contextlib.contextmanager
def _confined_to(cores: Sequence[int]) -> Iterator[None]:
    """Let processes that are started in the block run on `cores` alone; none given: anywhere."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _ignore(progress: Progress) -> None:
    """Progress of a few seconds that nobody needs to see."""


class _Errors:
    """Measured less true, seconds, over all chunks of all answers."""

    def __init__(self) -> None:
        self.ttft: list[float] = []
        self.stamp: list[float] = []
        self.gap: list[float] = []


def _errors(requests: Sequence[Request], served: Sequence[Served], zero_s: float) -> _Errors:
    """Return the errors of `requests`, whose run began at `zero_s`, held against `served`."""
    truth_by_id = {f"calibration-{s.key - 1:05d}": s for s in served}
    errors = _Errors()
    for request in requests:
        truth = truth_by_id[request.request_id]
        stamps = [zero_s + at_s for at_s in request.chunk_s]
        late = [stamp - sent for stamp, sent in zip(stamps, truth.sent_s, strict=True)]
        # not `ttft_s`, which is None where a client is so late that it finds a whole answer
        sent_s = zero_s + (request.sent_s or 0.0)
        errors.ttft.append(stamps[0] - sent_s - (truth.sent_s[0] - truth.arrived_s))
        errors.stamp += late
        errors.gap += [abs(b - a) for a, b in itertools.pairwise(late)]
    return errors


def _record(
    shape: StreamShape,
    replayed: StreamShape,
    server_core: int | None,
    result: LoadResult,
    errors: _Errors,
) -> Calibration:
    cpu_s_per_event = result.cpu_s / result.events
    ceiling = CEILING_SHARE / cpu_s_per_event
    return Calibration(
        measured_unix_s=time.time(),
        boot_id=boot_id(),
        shape=replayed,
        elapsed_s=result.elapsed_s,
        num_requests=result.total,
        num_events=result.events,
        ttft_overstatement_s=_spread(errors.ttft),
        stamp_error_s=_spread(errors.stamp),
        gap_error_s=_spread(errors.gap),
        receive_lag_s=result.receive_lag,
        cpu_s_per_event=cpu_s_per_event,
        ceiling_events_per_s=ceiling,
        ceiling_share=CEILING_SHARE,
        server_core=server_core,
        priority=result.priority,
        expected=shape,
        workers_needed=max(1, math.ceil(shape.events_per_s / ceiling)),
    )


def _spread(values: Sequence[float]) -> Spread:
    """Return the spread of a list that is not empty."""
    half, high = percentile(values, 0.5), percentile(values, 0.99)
    assert half is not None and high is not None
    return Spread(n=len(values), p50=half, p99=high, max=max(values))
