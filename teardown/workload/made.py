"""Prompts that the kit makes where the client gave none: by lengths, from a trace, or calls."""

import json
from pathlib import Path

from teardown.workload.ramp import num_arrivals
from teardown.workload.synthetic import Line, synthetic_lines
from teardown.workload.traces import trace_lines
from teardown.workload.voice import voice_lines
from teardown.workload_settings import SyntheticSettings, WorkloadSettings


def made_prompts(load: WorkloadSettings, folder: Path) -> str | None:
    """Return the text of the prompts file of `load`; None where it names the client's own.

    folder: where a trace is looked for. Same settings and trace, same text.
    """
    if load.prompts is not None:
        return None
    return "".join(json.dumps(line) + "\n" for line in _lines(load, folder))


def _lines(load: WorkloadSettings, folder: Path) -> list[Line]:
    if load.trace is not None:
        return trace_lines(
            folder / Path(load.trace).expanduser(),
            load.trace_format,
            load.seed,
            most=load.requests,
            until_s=load.duration_s,
        )
    if load.kind == "voice":
        return voice_lines(load)
    made = load.synthetic or SyntheticSettings()
    return synthetic_lines(made, load.seed, _num_requests(load, made))


def _num_requests(load: WorkloadSettings, made: SyntheticSettings) -> int:
    if load.requests is not None:
        return load.requests
    if load.kind == "ramp":
        return num_arrivals(load)
    arrivals = max(1, round((load.rate_per_s or 0.0) * (load.duration_s or 0.0)))
    return arrivals * made.turns if load.kind == "sessions" else arrivals
