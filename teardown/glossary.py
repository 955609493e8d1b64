"""The words that code, command line and report share, each with formula and unit.

`DEFINITIONS.md` is the contract; where a text here differs from it, the contract holds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word: its name in full, how it is computed, in which unit, and what it says."""

    name: str
    formula: str
    unit: str
    text: str


GLOSSARY: dict[str, Term] = {
    "TTFT": Term(
        name="time to first token",
        formula="first content, reasoning or tool delta − sent",
        unit="s",
        text="How long a user looks at an empty answer. White space counts, an empty delta not.",
    ),
    "TTFO": Term(
        name="time to first output",
        formula="first answer text that is not blank, or first tool argument − sent",
        unit="s",
        text="How long until the answer proper begins; voice promises are judged by it.",
    ),
    "TPOT": Term(
        name="time per output token",
        formula="(last content − first content) / (visible tokens − tokens of the first chunk)",
        unit="s",
        text="The pace of the answer once it has begun. An answer of one token has none.",
    ),
    "E2E": Term(
        name="end-to-end time",
        formula="last content − sent",
        unit="s",
        text="How long one whole answer takes. From intended, the client wait is added.",
    ),
    "client wait": Term(
        name="client wait",
        formula="sent − intended",
        unit="s",
        text="How late the load generator was; large values make the run invalid.",
    ),
    "max gap": Term(
        name="longest gap between chunks",
        formula="max(next chunk − this chunk) within one answer",
        unit="s",
        text="The longest stall inside an answer. A chunk may hold several tokens.",
    ),
    "attainment": Term(
        name="share of requests that keep the promise",
        formula="requests meeting every promise / requests intended in the plateau",
        unit="ratio",
        text="Failed, refused, cut and unsent requests count as misses.",
    ),
    "goodput": Term(
        name="useful throughput",
        formula="requests meeting every promise / seconds of the plateau",
        unit="1/s",
        text="Traffic served within the promise; traffic served too late adds nothing.",
    ),
    "capacity": Term(
        name="largest load within the promise",
        formula="highest arrival rate whose lower attainment bound meets the promise",
        unit="1/s",
        text="How much traffic the stack takes before the promise breaks.",
    ),
    "plateau": Term(
        name="plateau",
        formula="first to last moment at the asked load",
        unit="s",
        text="The window that is judged. Ramp-up and drain are shown, not mixed in.",
    ),
    "regime": Term(
        name="state of the caches",
        formula="cold | steady | production",
        unit="",
        text="Cold: nothing cached. Steady: warmed with the same mix. Production: as found.",
    ),
    "effect": Term(
        name="effect of a change",
        formula="ratio of means over run pairs, turned so that above 1 is better",
        unit="×",
        text="The run is the unit of replication: requests of one run share its fate.",
    ),
    "interval": Term(
        name="95 % interval",
        formula="Student's t on the logarithms of the pair ratios",
        unit="",
        text="Where the effect lies if the same trials were made again. One that spans 1 is no "
        "measurable change.",
    ),
    "noise floor": Term(
        name="noise floor",
        formula="the effect that two sets of unchanged runs show against each other",
        unit="×",
        text="Differences inside it are not the change's doing.",
    ),
    "oracle": Term(
        name="accuracy gate",
        formula="answers of the changed stack against stored answers of the original",
        unit="",
        text="A change whose answers drift further than the original drifts from itself is "
        "rejected, however fast it is.",
    ),
    "prefill": Term(
        name="prefill",
        formula="execution of prompt tokens that are not cached",
        unit="share of experienced time",
        text="The stack reads the prompt.",
    ),
    "decode": Term(
        name="decode",
        formula="execution of output tokens, bound by reading the weights",
        unit="share of experienced time",
        text="The stack writes the answer, one token per step.",
    ),
    "KV cache": Term(
        name="key-value cache",
        formula="keys and values of every token in the context, by layer",
        unit="bytes",
        text="The stack's memory of the conversation; every output token reads it again.",
    ),
    "unexplained": Term(
        name="unexplained",
        formula="1 − sum of the shares of all classes",
        unit="share of experienced time",
        text="Time that the terms of the model do not cover. Above 0.15 no bottleneck is named.",
    ),
}
