"""From shares to a verdict: causes with what removing them saves, confidence, abstention."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from teardown.classify.findings import Findings
from teardown.classify.ledger import Balance, Entry, Ledger
from teardown.records import TIME_CLASSES, RuledOut, TimeClass

# DEFINITIONS.md, "Attribution": above this, unexplained or overshoot, abstain.
MAX_UNEXPLAINED = 0.15
# A share below this is no candidate; a cause below it is not worth naming.
MIN_SHARE = 0.02
RULED_OUT_SHARE = 0.05
# No verdict from one run is certain; a confirming intervention is.
BEST_CONFIDENCE = 0.95
# The lead over the second class at which its size no longer adds confidence.
FULL_LEAD = 0.30
# diagnosis 3.5: abstain when the lead is within 1.5 intervals.
LEAD_INTERVALS = 1.5
NUM_RESAMPLES = 200
FEWEST_REQUESTS = 3
FEW_REQUESTS = 11  # below it DEFINITIONS.md withholds even a median

# These shorten every step, so they also shorten the waiting that the same steps cause. Bounds of
# physics (weights, cache, compute) do not: nothing removes them.
SHORTENS_WAITING = frozenset(
    {"eager_mode", "graph_coverage", "cpu_starvation", "prefix_cache_miss", "prefill_interference"}
)


class Lead(NamedTuple):
    """The first class, its lead over the second in share, and the 95 % half interval of that."""

    time_class: TimeClass
    second: TimeClass
    lead: float
    half_interval: float


def causes(
    balance: Balance, meanwhile: Mapping[Entry, float], missed: float, starved: float = 0.0
) -> dict[str, float]:
    """Return every supported cause with the fraction of time that removing it saves at most.

    meanwhile: what the engine executed while requests waited, as fractions; missed: the fraction
    of computed prompt tokens that a working prefix cache would have saved; starved: the fraction
    that each executing class gave to CPU starvation, which work that is not done does not suffer.
    """
    bound = sum(v for e, v in balance.by_entry.items() if e.time_class == "scheduling")
    found: dict[str, float] = {}
    for entry, share in balance.by_entry.items():
        saved = share
        if entry.cause in SHORTENS_WAITING:
            saved += bound * meanwhile.get(entry, 0.0)
        if entry.time_class == "prefill" and missed > 0:
            again = missed * (saved / max(1 - starved, 1e-9) + bound * meanwhile.get(entry, 0.0))
            found["prefix_cache_miss"] = found.get("prefix_cache_miss", 0.0) + again
            saved = (1 - missed) * saved
        found[entry.cause] = found.get(entry.cause, 0.0) + saved
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return {cause: min(share, 1.0) for cause, share in ordered if share >= MIN_SHARE}


def lead(ledger: Ledger, balance: Balance) -> Lead:
    """Return which class leads and by how much, with a bootstrap over requests."""
    ordered = sorted(TIME_CLASSES, key=lambda name: -balance.by_class[name])
    first, second = ordered[0], ordered[1]
    difference = np.zeros_like(ledger.total)
    for entry, seconds in ledger.scaled().items():
        difference += seconds * ((entry.time_class == first) - (entry.time_class == second))
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(ledger.total), size=(NUM_RESAMPLES, len(ledger.total)))
    leads = difference[rows].sum(axis=1) / ledger.total[rows].sum(axis=1)
    low, high = np.quantile(leads, [0.025, 0.975])
    value = balance.by_class[first] - balance.by_class[second]
    return Lead(first, second, value, float(high - low) / 2)


def reasons_to_abstain(balance: Balance, first: Lead, num_requests: int) -> list[str]:
    """Return why no class can be named; empty when one can."""
    found = []
    if num_requests < FEWEST_REQUESTS:
        found.append(f"only {num_requests} complete requests; {FEWEST_REQUESTS} are needed")
    unexplained = balance.by_class["unexplained"]
    if unexplained > MAX_UNEXPLAINED:
        found.append(
            f"{unexplained:.0%} of the time is unexplained ({MAX_UNEXPLAINED:.0%} allowed)"
        )
    if balance.overshoot > MAX_UNEXPLAINED:
        found.append(
            f"the terms overshoot by {balance.overshoot:.0%} ({MAX_UNEXPLAINED:.0%} allowed)"
        )
    if first.lead < LEAD_INTERVALS * first.half_interval:
        found.append(
            f"{first.time_class} leads {first.second} by {first.lead:.2f} of the time, within "
            f"{LEAD_INTERVALS} intervals of ±{first.half_interval:.2f}"
        )
    return found


def confidence(balance: Balance, first: Lead, num_requests: int, found: Findings) -> float:
    """Return 0 to 1: the lead, what is unexplained, and every doubt as a factor."""
    value = BEST_CONFIDENCE * (0.5 + 0.5 * min(1.0, first.lead / FULL_LEAD))
    value *= max(0.0, 1 - balance.by_class["unexplained"] - balance.overshoot)
    if num_requests < FEW_REQUESTS:
        found.doubt(0.85, f"only {num_requests} requests")
    for factor, _why in found.doubts:
        value *= factor
    return round(value, 3)


def ruled_out(balance: Balance, is_bounded: bool, has_waiting: bool) -> list[RuledOut]:
    """Return the classes that a measurement excludes; one that nothing measured is not among them.

    The upper end counts what is unexplained: that time could be anyone's.
    """
    seen = {
        "client": True,
        "prefill": has_waiting,
        "scheduling": has_waiting,
        "decode": is_bounded,
        "kv_bandwidth": is_bounded,
        "host": is_bounded and has_waiting,
        "interconnect": False,
    }
    unexplained = balance.by_class["unexplained"]
    found = []
    for name in TIME_CLASSES:
        share = balance.by_class[name]
        if seen[name] and share + unexplained < RULED_OUT_SHARE:
            because = f"{share:.1%} of the time, {share + unexplained:.1%} with what is unexplained"
            found.append(RuledOut(time_class=name, because=because))
    return found


WOULD_DISPROVE: dict[TimeClass, str] = {
    "prefill": "Time to first token that stays when prompts are half as long.",
    "decode": "A plain step that stays when the weights are stored in half the bits.",
    "kv_bandwidth": "A plain step that stays when contexts are half as long.",
    "scheduling": "Waiting that stays when the named limit is doubled.",
    "host": "A plain step that stays on a faster or less busy CPU, or with CUDA graphs on.",
    "client": "The same latency from a second client with half the load.",
    "interconnect": "A plain step that stays on one device.",
}
