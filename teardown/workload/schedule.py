"""Prompts and a kind of load into a Schedule, computed whole before the run."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from teardown.engagement import sha256_file
from teardown.errors import UsageError
from teardown.records import Schedule, ScheduledRequest, WorkloadKind, to_json
from teardown.workload import closed, ramp, sessions, steady, trace, voice
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings

Builder = Callable[[WorkloadSettings, list[Prompt]], list[ScheduledRequest]]
BUILDERS: Final[dict[WorkloadKind, Builder]] = {
    "closed": closed.build,
    "open": steady.build,
    "ramp": ramp.build,
    "sessions": sessions.build,
    "trace": trace.build,
    "voice": voice.build,
}


def build_schedule(load: WorkloadSettings, prompts: list[Prompt], prompts_path: Path) -> Schedule:
    """Return the schedule of `load`; the same settings and prompts give the same bytes.

    UsageError when there are fewer sessions than users, or when `load` is several runs.
    """
    kind = load.kind
    if kind == "sweep" or kind == "capacity" or kind == "probe":
        raise UsageError(
            f"workload {load.name!r} is a {kind}, which is several runs; name one of its levels, "
            "such as a run of `teardown measure` has in its id"
        )
    requests = BUILDERS[kind](load, prompts)
    return Schedule(
        workload=load.name,
        kind=kind,
        seed=load.seed,
        concurrency=load.concurrency_to or load.concurrency,
        rate_per_s=_mean_rate(load, requests),
        prompts_sha256=sha256_file(prompts_path),
        requests=requests,
        speech=voice.speech_of(load) if kind == "voice" else None,
    )


def schedule_sha256(schedule: Schedule) -> str:
    """Return the hash that names this schedule; the salt is no part of it."""
    return hashlib.sha256(to_json(schedule).encode()).hexdigest()


def _mean_rate(load: WorkloadSettings, requests: list[ScheduledRequest]) -> float | None:
    """Return the mean rate of an open loop; None for one without, or all of it at one moment."""
    if load.kind == "open":
        return load.rate_per_s
    if load.kind == "trace" or (load.kind == "ramp" and load.rate_to_per_s is not None):
        last_s = max(item.intended_s or 0.0 for item in requests)
        return (len(requests) - 1) / last_s if last_s > 0 else None
    return None
