"""Which metrics each engine really has; a rule may use no other."""

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import msgspec

from teardown.records import Stack

ALIASES = {"llama-server": "llama.cpp", "xllamacpp": "llama.cpp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Metric names of one engine; None where it has no such metric.

    running, waiting: gauges of requests. output_tokens, steps, preemptions: counters. ttft,
    queue_time: histograms in seconds. slots_options: what bounds requests running at once.
    """

    source: str
    path: str
    running: str
    waiting: str
    output_tokens: str
    steps: str
    kv_usage: str | None = None
    preemptions: str | None = None
    ttft: str | None = None
    queue_time: str | None = None
    ttft_buckets_s: list[float] = field(default_factory=list)
    slots_options: list[str]
    default_slots: int

    def slots(self, stack: Stack) -> int:
        """Return how many requests `stack` runs at once: as it said, as asked, or by default."""
        for options in (stack.effective, stack.options):
            for name in self.slots_options:
                value = options.get(name, options.get(name.replace("-", "_")))
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return self.default_slots


def metrics_of(engine: str) -> Metrics | None:
    """Return the metrics of `engine`; None for one whose names are not known."""
    return _table().get(ALIASES.get(engine, engine))


@cache
def _table() -> dict[str, Metrics]:
    text = (files("iac") / "monitoring" / "metrics.json").read_text(encoding="utf-8")
    return {name: msgspec.convert(row, Metrics) for name, row in json.loads(text).items()}
