"""Facts that several floors need: GPUs, and where each engine keeps each metric; sourced."""

import difflib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from teardown.errors import UsageError

__all__ = ["Gpu", "MetricRow", "gpu", "gpu_of_device", "gpus", "histogram_name", "metric_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator's peaks: bytes per second read, bytes of memory, dense bf16 FLOP per second.

    device_names: what the driver calls it.
    """

    name: str
    device_names: tuple[str, ...]
    read_bandwidth_bytes_per_s: float
    memory_bytes: int
    bf16_flop_per_s: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """Where one of the kit's words stands on an engine's metrics page.

    any_of: alternatives, newest first; the metrics of one alternative are summed.
    over_labels: how one metric's label sets (replicas inside one server) become one number.
    """

    word: str
    any_of: tuple[tuple[str, ...], ...]
    type: Literal["counter", "gauge", "histogram"]
    unit: str
    over_labels: Literal["sum", "max"]


@cache
def gpus() -> dict[str, Gpu]:
    """Return every known GPU by its name."""
    rows = _document("gpus.json")["gpus"]
    return {row["name"]: Gpu(**{**row, "device_names": tuple(row["device_names"])}) for row in rows}


def gpu(name: str) -> Gpu:
    """Return the GPU called `name`; UsageError with the nearest name when there is none."""
    known = gpus()
    if name in known:
        return known[name]
    by_folded = {key.casefold(): key for key in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    hint = f"did you mean {by_folded[near[0]]!r}?" if near else f"known: {', '.join(known)}"
    raise UsageError(f"GPU {name!r} is not known; {hint}")


def gpu_of_device(device_name: str) -> Gpu | None:
    """Return the GPU that the driver calls `device_name`; None when it is not in the table."""
    return next((g for g in gpus().values() if device_name in g.device_names), None)


@cache
def metric_rows(engine: str) -> tuple[MetricRow, ...]:
    """Return the metrics of `engine` by the kit's words; empty for an engine without a page."""
    rows = _document("metrics.json")["engines"].get(engine, {"rows": []})["rows"]
    return tuple(
        MetricRow(**{**row, "any_of": tuple(tuple(one) for one in row["any_of"])}) for row in rows
    )


def histogram_name(engine: str, word: str) -> str | None:
    """Return the histogram of `engine` for the kit's word (`ttft`); None where it has none."""
    name: str | None = (
        _document("metrics.json")["engines"].get(engine, {}).get("histograms", {}).get(word)
    )
    return name


def _document(name: str) -> Any:
    return json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
