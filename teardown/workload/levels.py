"""A workload of several levels is several runs, each with a certificate and a salt of its own.

Levels are workloads themselves, named `<workload>@<level>`; everything that knows a run by the name
of its workload finds the level again by that name.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from teardown.workload_settings import ProbeSettings, SyntheticSettings, WorkloadSettings

LEVEL_SIGN: Final = "@"
# A capacity level lasts at least so long, and has at least so many requests, unless it is set: a
# queue needs time to grow, and at 200 requests an attainment of 0.95 is still shown with 3 missed.
LEVEL_S: Final = 60.0
LEVEL_REQUESTS: Final = 200


def levels_of(load: WorkloadSettings) -> list[WorkloadSettings]:
    """Return the runs that `load` is made of: itself, or its levels in order.

    A capacity search has none that are known before it: see `capacity_level`.
    """
    return LEVELS[load.kind](load) if load.kind in LEVELS else [load]


def level_named(load: WorkloadSettings, name: str) -> WorkloadSettings | None:
    """Return the level of `load` that is called `name`; None where it has none."""
    if load.kind == "capacity":
        whole, _, rate = name.rpartition(LEVEL_SIGN)
        try:
            found = capacity_level(load, float(rate)) if whole == load.name else None
        except ValueError:
            return None
        return found if found is not None and found.name == name else None
    return next((level for level in levels_of(load) if level.name == name), None)


def capacity_level(load: WorkloadSettings, rate_per_s: float) -> WorkloadSettings:
    """Return the open loop at one rate of a capacity search, as long as the search asks."""
    least = LEVEL_REQUESTS if load.requests is None else load.requests
    over_s = LEVEL_S if load.duration_s is None else load.duration_s
    return replace(
        load,
        name=_name(load, f"{rate_per_s:g}"),
        kind="open",
        rate_per_s=rate_per_s,
        requests=max(least, math.ceil(rate_per_s * over_s)),
        duration_s=None,
    )


def _name(load: WorkloadSettings, level: str) -> str:
    return f"{load.name}{LEVEL_SIGN}{level}"


def _sweep(load: WorkloadSettings) -> list[WorkloadSettings]:
    plain = replace(load, rates_per_s=None, concurrencies=None)
    rates = [
        replace(plain, name=_name(load, f"{rate:g}"), kind="open", rate_per_s=rate)
        for rate in load.rates_per_s or ()
    ]
    users = [
        replace(plain, name=_name(load, f"{users}"), kind="closed", concurrency=users)
        for users in load.concurrencies or ()
    ]
    return rates + users


def _voice(load: WorkloadSettings) -> list[WorkloadSettings]:
    if load.concurrencies is None:
        return [load]
    return [
        replace(load, name=_name(load, f"{calls}"), concurrency=calls, concurrencies=None)
        for calls in load.concurrencies
    ]


def _probe(load: WorkloadSettings) -> list[WorkloadSettings]:
    """Return the four corners: from them t = a + b B + c S can be told apart.

    B sequences of S = B (prompt + t) tokens in sum; equal lengths within a corner, so that all its
    prompts are read before its tokens are timed. A single ramp of the batch has B and S in
    proportion and tells nothing.
    """
    probe = load.probe or ProbeSettings()
    return [
        replace(
            load,
            name=_name(load, f"b{batch}-s{tokens}"),
            kind="closed",
            probe=None,
            concurrency=batch,
            requests=batch * probe.rounds,
            synthetic=SyntheticSettings(prompt_tokens=tokens, output_tokens=probe.output_tokens),
            extra_body={"ignore_eos": True, "temperature": 0} | load.extra_body,
        )
        for batch in (1, probe.batch)
        for tokens in (probe.short_tokens, probe.long_tokens)
    ]


LEVELS: Final[dict[str, Callable[[WorkloadSettings], list[WorkloadSettings]]]] = {
    "probe": _probe,
    "sweep": _sweep,
    "voice": _voice,
}
