"""Look up an engine's option by any of the names that it goes under."""

import json
from collections.abc import Iterable

from teardown.records import Options, OptionValue

SEQUENCE_LIMITS = ("max-num-seqs", "parallel", "n-parallel", "max-running-requests", "total_slots")
CAPTURE_SIZES = ("cudagraph-capture-sizes", "cuda-graph-sizes", "cuda-graph-bs")
CAPTURE_LIMITS = ("max-cudagraph-capture-size", "cuda-graph-max-bs")


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-").lower()


def find(options: Options, names: Iterable[str]) -> OptionValue:
    """Return the first option of these names, whatever its dashes; None when none is set."""
    by_name = {_plain(name): value for name, value in options.items()}
    for name in names:
        value = by_name.get(_plain(name))
        if value is not None:
            return value
    return None


def number(options: Options, names: Iterable[str]) -> float | None:
    """Return an option as a number; None when it is not set or is none."""
    value = find(options, names)
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except ValueError:
        return None


def is_on(options: Options, names: Iterable[str]) -> bool:
    """True when a switch is set, as a flag or as text."""
    value = find(options, names)
    return value is True or str(value).lower() in ("true", "on", "yes", "1")


def is_eager(options: Options) -> bool:
    """True when the options forbid CUDA graphs altogether."""
    if is_on(options, ("enforce-eager", "disable-cuda-graph")):
        return True
    mode = find(options, ("cudagraph-mode",)) or _compilation(options).get("cudagraph_mode", "")
    return str(mode).upper() == "NONE"


def largest_graph(options: Options) -> float | None:
    """Return the largest batch that has a CUDA graph, where the options say it."""
    limit = number(options, CAPTURE_LIMITS)
    text = find(options, CAPTURE_SIZES)
    sizes = _numbers(str(text)) if text is not None else []
    compilation = _compilation(options)
    sizes += _numbers(str(compilation.get("cudagraph_capture_sizes") or ""))
    top = compilation.get("max_cudagraph_capture_size")
    if limit is None and isinstance(top, int):
        limit = float(top)
    if sizes:
        return max(sizes)
    return limit


def _compilation(options: Options) -> dict[str, object]:
    value = find(options, ("compilation-config", "O", "cc"))
    try:
        document = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _numbers(text: str) -> list[float]:
    words = text.replace(",", " ").replace("[", " ").replace("]", " ").split()
    return [float(word) for word in words if word.isdigit()]
