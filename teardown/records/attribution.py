"""Where the time went and what to change, with the evidence."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from teardown.records.run import Validity

TimeClass = Literal[
    "prefill", "decode", "kv_bandwidth", "scheduling", "host", "client", "interconnect"
]
TIME_CLASSES: tuple[TimeClass, ...] = (
    "prefill",
    "decode",
    "kv_bandwidth",
    "scheduling",
    "host",
    "client",
    "interconnect",
)
CAUSES: dict[TimeClass, tuple[str, ...]] = {
    "prefill": ("prefill_compute", "prefix_cache_miss", "prefill_interference", "mm_encode"),
    "decode": ("weights_bandwidth", "decode_compute", "speculation_loss", "kernel_inefficient"),
    "kv_bandwidth": ("kv_bandwidth", "kernel_inefficient"),
    "scheduling": (
        "batch_cap",
        "token_budget",
        "kv_capacity",
        "head_of_line",
        "replica_imbalance",
        "routing_affinity",
        "lora_swap",
    ),
    "host": (
        "eager_mode",
        "graph_coverage",
        "cpu_starvation",
        "tokenizer",
        "grammar",
        "serialised_server",
        "frontend",
    ),
    "client": ("client_limited", "network"),
    "interconnect": ("collective", "kv_transfer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number, where it came from, and what it says. `supports` names a class or a cause."""

    name: str
    value: float
    unit: str
    source: str
    says: str
    supports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledOut:
    """A class that the evidence excludes, and why."""

    time_class: TimeClass
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The diagnosis of one run.

    shares: fraction of experienced time by class; with `unexplained` they sum to 1.
    causes: every cause that the evidence supports, strongest first, with the fraction of
    experienced time that removing it would save at most.
    """

    SCHEMA: ClassVar[str] = "teardown.attribution/1"

    run: str
    validity: Validity
    time_class: TimeClass | None
    cause: str | None
    confidence: float
    abstained: bool
    shares: dict[str, float]
    overshoot: float
    evidence: list[Evidence]
    ruled_out: list[RuledOut]
    would_disprove: list[str]
    causes: dict[str, float]
    notes: list[str]
