"""Time that the engine's threads were ready to run and had no CPU; for engines on a CPU."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from teardown.classify.data import RunData
from teardown.classify.findings import Findings
from teardown.classify.ledger import Entry, Ledger
from teardown.classify.timeline import Array
from teardown.records import TimeClass

# Below this the scheduler's own turn-taking among a host's daemons is all there is to see.
MIN_STARVED_RATIO = 0.05
# NVML clock event reasons that slow a GPU: SW power cap, HW slowdown, SW and HW thermal, brake.
SLOWING_REASONS = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


EXECUTING: tuple[TimeClass, ...] = ("prefill", "decode", "kv_bandwidth")


def charge_starvation(ledger: Ledger, data: RunData, stalled: Array, found: Findings) -> float:
    """Charge the starved fraction of execution to `host`, cause `cpu_starvation`.

    Threads of one step wait for each other at every operation, so the step is at least as much
    longer as the mean thread was kept from running. stalled: seconds per request in gaps that no
    prompt explains; they are starvation first, then every executing class gives its part. Returns
    the fraction that each gave. On a GPU engine the same number is evidence only: its threads
    mostly wait for the device.
    """
    starved = starved_ratio(data.host)
    if starved is None:
        return 0.0
    on_cpu = data.hardware is not None and data.hardware.device == "cpu"
    found.saw(
        "engine threads ready but without a CPU",
        starved,
        "ratio",
        "schedstat",
        "run delay over run delay and CPU time",
        "cpu_starvation",
    )
    if not on_cpu or starved < MIN_STARVED_RATIO:
        return 0.0
    running = ledger.seconds(EXECUTING)
    starving = starved * (running + float(stalled.sum()))
    of_stalls = min(1.0, starving / stalled.sum()) if stalled.sum() > 0 else 0.0
    ledger.add("host", "cpu_starvation", stalled * of_stalls)
    left = starving - of_stalls * float(stalled.sum())
    given = min(1.0, max(0.0, left / running)) if running > 0 else 0.0
    ledger.move(given, Entry("host", "cpu_starvation"), EXECUTING)
    return given


def starved_ratio(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return run delay over run delay plus CPU time of the engine's tasks; None when not seen."""
    delay, cpu = _rise(rows, "run_delay_s"), _rise(rows, "cpu_s")
    if delay is None or cpu is None or delay + cpu <= 0:
        return None
    return delay / (delay + cpu)


def say_throttling(data: RunData, found: Findings) -> None:
    """Throttling is a factor in the evidence, never a share (DEFINITIONS.md)."""
    bits = [int(r["throttle_reasons"]) for r in data.gpu if str(r.get("throttle_reasons", ""))]
    if bits:
        slowed = sum(1 for b in bits if b & SLOWING_REASONS) / len(bits)
        found.saw(
            "samples with slowed clocks", slowed, "ratio", "NVML", "power, thermal or brake bits"
        )
        if slowed > MIN_STARVED_RATIO:
            found.doubt(0.95, f"the GPU's clocks were held down in {slowed:.0%} of samples")
    throttled = _rise(data.host, "cgroup_throttled")
    periods = _rise(data.host, "cgroup_periods")
    if throttled and periods:
        found.saw(
            "CPU quota periods throttled",
            throttled / periods,
            "ratio",
            "cgroup cpu.stat",
            "of the engine's group",
            "cpu_starvation",
        )


def _rise(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    if len(values) < 2:
        return None
    return sum(max(0.0, new - old) for old, new in pairwise(values))
