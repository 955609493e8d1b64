"""A schedule is dealt out to workers before the run, so that their sum is what was asked.

Closed loops deal whole lanes, open loops whole sessions, both in turn: a turn never waits for
another host. The asked concurrency is divided too, so that no moment has more in flight, whatever
the workers do.
"""

from dataclasses import replace
from typing import NamedTuple

from teardown.load.config import LoadConfig
from teardown.records import Schedule, ScheduledRequest


class Share(NamedTuple):
    """What one worker sends, and how; its schedule is part of the run's."""

    config: LoadConfig
    schedule: Schedule


class Ramp(NamedTuple):
    """The ramp settings of one worker, as in `LoadConfig`."""

    ramp_s: float
    ramp_from_s: float


def deal(config: LoadConfig, schedule: Schedule) -> list[Share]:
    """Return a share for each of `config.workers`, named "1", "2" and so on.

    Requests that `config.skip` names are left out. Shares are empty where there are fewer lanes or
    sessions, or less concurrency, than workers. `stop_if` is left to the master, who sees them all.
    """
    skip = set(config.skip)
    left = [item for item in schedule.requests if item.request_id not in skip]
    groups = _groups(schedule, left)
    # the lanes of sessions and calls are their own cap: one request in flight for each
    is_capped = not (schedule.is_open or schedule.is_live)
    cap = max(schedule.concurrency, 1) if is_capped else config.max_in_flight
    most = config.max_requests_per_s
    num_busy = min(config.workers, len(groups), config.workers if cap is None else cap)
    share_by_id = {
        item.request_id: number % num_busy for number, group in enumerate(groups) for item in group
    }
    dealt: list[list[ScheduledRequest]] = [[] for _ in range(config.workers)]
    for item in left:
        dealt[share_by_id[item.request_id]].append(item)
    shares = []
    for number, items in enumerate(dealt):
        part = None if cap is None or not items else _part(cap, number, num_busy)
        ramp = _ramp(config.ramp_s, number, num_busy, len(groups))
        own = replace(
            config,
            worker=str(number + 1),
            workers=1,
            listen=None,
            skip=[],
            stop_if=None,
            parent_pid=None,
            max_in_flight=None if is_capped else part,
            max_requests_per_s=most and most / max(num_busy, 1),
            ramp_s=ramp.ramp_s,
            ramp_from_s=ramp.ramp_from_s,
        )
        concurrency = (part or 0) if is_capped else schedule.concurrency
        shares.append(Share(own, replace(schedule, requests=items, concurrency=concurrency)))
    return shares


def _groups(schedule: Schedule, items: list[ScheduledRequest]) -> list[list[ScheduledRequest]]:
    """Return what must stay together, in the order in which it begins."""
    groups: dict[object, list[ScheduledRequest]] = {}
    if schedule.is_open:
        for item in sorted(items, key=lambda item: item.intended_s or 0.0):
            groups.setdefault(item.session, []).append(item)
    else:
        for item in sorted(items, key=lambda item: item.lane):
            groups.setdefault(item.lane, []).append(item)
    return list(groups.values())


def _part(whole: int, number: int, num_parts: int) -> int:
    """Return the part of `whole` that falls to the worker `number`; all parts make the whole."""
    return whole // num_parts + (number < whole % num_parts)


def _ramp(ramp_s: float, number: int, num_busy: int, num_lanes: int) -> Ramp:
    """Return the ramp settings by which this worker's lanes start when one process would start
    them: lane number + k * num_busy after as many steps of ramp_s / num_lanes.
    """
    if ramp_s == 0 or number >= num_busy:
        return Ramp(0.0, 0.0)
    step_s = ramp_s / num_lanes
    num_own = len(range(number, num_lanes, num_busy))
    return Ramp(ramp_s=step_s * num_busy * num_own, ramp_from_s=step_s * number)
