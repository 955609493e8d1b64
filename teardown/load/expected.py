"""What load a run is going to be, whether this host's client can carry it, and how well.

A calibration takes seconds, so one is kept for loads that are no heavier, on the same boot of the
host, for REUSED_FOR_S; each run has a copy of the one that it stands on.
"""

import contextlib
import logging
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from teardown.engagement import Engagement
from teardown.errors import TargetError, UsageError
from teardown.load.calibrate import MOST_EVENTS_PER_S, boot_id, calibrate
from teardown.load.table import read_requests
from teardown.records import Calibration, Request, Run, Schedule, StreamShape, read

CALIBRATION_FILE: Final = "calibration.json"
REUSED_FOR_S: Final = 1800.0
# A much heavier load would be a bound that says nothing; below this rate the cost of the streams
# themselves hardly shows.
HEAVIER: Final = 10.0
LIGHT_EVENTS_PER_S: Final = 2000.0
# A stream of which nothing is known: chunks a second, and chunks of an answer without a limit.
CHUNKS_PER_S: Final = 40.0
CHUNKS: Final = 256
SLOWEST_PER_S, FASTEST_PER_S = 1.0, 2000.0

log = logging.getLogger(__name__)


def expected_load(
    schedule: Schedule, prompt_bytes: int, earlier: Sequence[Request] = ()
) -> StreamShape:
    """Return the load that `schedule` makes on all load processes together.

    Streams are as dense as in `earlier`, the newest run of the workload, else CHUNKS_PER_S. A
    closed loop has all its users answered at once at most; an open loop has, by Little's law, its
    arrivals times the length of an answer.
    """
    seen = [
        r.chunk_s
        for r in earlier
        if not r.is_failed and len(r.chunk_s) > 1 and r.chunk_s[-1] > r.chunk_s[0]
    ]
    rates = [(len(chunks) - 1) / (chunks[-1] - chunks[0]) for chunks in seen]
    per_s = statistics.median(rates) if rates else CHUNKS_PER_S
    per_s = min(max(per_s, SLOWEST_PER_S), FASTEST_PER_S)
    if schedule.is_open:
        chunks = (
            statistics.fmean(len(chunks) for chunks in seen)
            if seen
            else statistics.fmean(r.max_tokens or CHUNKS for r in schedule.requests)
        )
        streams = math.ceil(_arrivals_per_s(schedule) * chunks / per_s)
    else:
        streams = min(schedule.concurrency, len({r.lane for r in schedule.requests}))
    return StreamShape(streams=max(streams, 1), chunks_per_s=per_s, prompt_bytes=prompt_bytes)


def calibration_for(
    engagement: Engagement, schedule: Schedule, prompt_bytes: int, workers: int = 1
) -> Calibration | None:
    """Return what the client is going to add to a run of `schedule`, measured now or lately.

    TargetError where the load is beyond what `workers` processes carry. None where the calibration
    itself fails, which is logged and shows in the run's error bar.
    """
    earlier = _newest_requests(engagement, schedule.workload)
    expected = expected_load(schedule, prompt_bytes, earlier)
    share = replace(expected, streams=math.ceil(expected.streams / workers))
    found = next((c for c in _kept(engagement) if _stands_for(c, share)), None)
    if found is None:
        try:
            found = calibrate(_rounded_up(share))
        except TargetError as error:
            log.warning("the client is not calibrated: %s", error)
            return None
    needed = found.workers_for(expected.events_per_s)
    if needed > workers:
        raise TargetError(_refusal(expected, found, needed))
    return replace(found, expected=expected, workers_needed=needed)


def _refusal(expected: StreamShape, found: Calibration, needed: int) -> str:
    cores = os.cpu_count() or 1
    where = ""
    if needed > cores:
        where = f"; this host has {cores} cores, so others must join (`teardown worker --join`)"
    return (
        f"this load is {expected.events_per_s:,.0f} events a second ({expected.streams} streams of "
        f"{expected.chunks_per_s:.3g}), and one load process of this host carries "
        f"{found.ceiling_events_per_s:,.0f} ({found.cpu_s_per_event * 1e6:.0f} µs of CPU an event, "
        f"{found.ceiling_share:.0%} of a core): it needs --workers {needed}{where}"
    )


def _rounded_up(shape: StreamShape) -> StreamShape:
    """Return `shape` with a rate of 10, 40, 160, ... a stream, so that one calibration stands for
    many runs; of 10, 20, 40, ... where loads are heavy, and as it is where they are very heavy.
    """
    for step, most_per_s in ((4, LIGHT_EVENTS_PER_S), (2, MOST_EVENTS_PER_S)):
        power = max(0, math.ceil(math.log(shape.chunks_per_s / 10, step) - 1e-9))
        rounded = replace(shape, chunks_per_s=10.0 * step**power)
        if rounded.events_per_s <= most_per_s:
            return rounded
    return shape


def _stands_for(kept: Calibration, shape: StreamShape) -> bool:
    """True where `kept` is of this boot, not old, and of a load like `shape` or a heavier one."""
    events_per_s = min(shape.events_per_s, MOST_EVENTS_PER_S)
    heaviest = max(HEAVIER * events_per_s, LIGHT_EVENTS_PER_S)
    return (
        kept.boot_id == boot_id()
        and 0 <= time.time() - kept.measured_unix_s <= REUSED_FOR_S
        and 0.99 * events_per_s <= kept.shape.events_per_s <= heaviest
        and shape.prompt_bytes <= 2 * kept.shape.prompt_bytes
    )


def _kept(engagement: Engagement) -> Iterator[Calibration]:
    """Yield the calibrations of the engagement's runs, newest run first."""
    for run_id in reversed(engagement.run_ids()):
        with contextlib.suppress(UsageError):  # none there, or of another version: make a new one
            yield read(Calibration, engagement.run_dir(run_id) / CALIBRATION_FILE)


def _newest_requests(engagement: Engagement, workload: str) -> list[Request]:
    """Return the requests of the newest run of `workload` that answered any; none where none is."""
    for run_id in reversed(engagement.run_ids()):
        folder = engagement.run_dir(run_id)
        with contextlib.suppress(UsageError):
            if read(Run, folder / "run.json").workload == workload:
                found = read_requests(folder / "requests.parquet")
                if any(not r.is_failed for r in found):
                    return found
    return []


def _arrivals_per_s(schedule: Schedule) -> float:
    if schedule.rate_per_s:
        return schedule.rate_per_s
    times = sorted(r.intended_s for r in schedule.requests if r.intended_s is not None)
    span_s = times[-1] - times[0] if times else 0.0
    return (len(times) - 1) / span_s if span_s > 0 else float(len(times))
