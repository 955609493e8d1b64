"""Attribute the time of one run: the decision tests in order, then the account and the verdict."""

from teardown.classify.client import charge_client
from teardown.classify.counters import Seen, see
from teardown.classify.data import RunData
from teardown.classify.findings import Findings
from teardown.classify.gaps import decoding
from teardown.classify.host import charge_starvation, say_throttling
from teardown.classify.ledger import Ledger
from teardown.classify.phases import phases
from teardown.classify.prefix import missed_work_ratio
from teardown.classify.step import plain_step
from teardown.classify.timeline import Timeline, load, timeline
from teardown.classify.verdict import (
    WOULD_DISPROVE,
    causes,
    confidence,
    lead,
    reasons_to_abstain,
    ruled_out,
)
from teardown.classify.waiting import (
    binding_limit,
    charge_waiting,
    gain_of_lifting,
    mean_step_s,
    prompt_rate,
)
from teardown.records import TIME_CLASSES, Attribution

# Scrapes that span less of the run than this may have missed what mattered.
MIN_COVERED_RATIO = 0.9


def attribute(data: RunData) -> Attribution:
    """Return where the time of the run went, why, and how sure that is. A pure function."""
    found = Findings()
    line = timeline(data.requests)
    num_failed = sum(r.is_failed for r in data.requests)
    if num_failed:
        found.notes.append(f"{num_failed} of {len(data.requests)} requests failed; left out.")
    if not line.requests:
        found.notes.append("Abstained: no request was completed.")
        return _nothing(data, found)
    _doubt_sources(data, found)
    seen = _seen(data, line, found)
    say_throttling(data, found)
    missed = missed_work_ratio(data, line, seen, found)

    ledger = Ledger(line.total)
    phase = phases(line, seen, found)
    frontend = charge_client(ledger, line, phase.frontend, found)
    ledger.add("host", "frontend", frontend)
    ledger.add("prefill", "prefill_compute", phase.prefill)

    held = load(line, phase.executed)
    preemptions = (seen.rise.preemptions or 0.0) if seen else 0.0
    tokens = decoding(line, phase, preemptions, found)
    ledger.add("prefill", "prefill_interference", tokens.interference)
    ledger.add("prefill", "kv_capacity", tokens.recomputed)
    ledger.add("scheduling", "kv_capacity", tokens.preempted)
    rate = prompt_rate(line, held, data.num_replicas) if phase.source != "client" else None
    step = plain_step(data, held, tokens.step_s, rate, found)
    for entry, fraction in step.parts.items():
        ledger.add(entry.time_class, entry.cause, tokens.plain * fraction)

    limit = binding_limit(data, seen, held, found) if phase.waiting.sum() > 0 else None
    mean_step = mean_step_s(line, tokens.plain + tokens.stalled)
    gain = gain_of_lifting(data, limit, line, held, step, mean_step, found) if limit else 0.0
    queued = seen is not None and seen.rise.queue_s is not None
    meanwhile = charge_waiting(
        ledger, line, phase.waiting, held, limit, gain, step, is_engine_queue=queued
    )
    given = charge_starvation(ledger, data, tokens.stalled, found)

    balance = ledger.balance()
    first = lead(ledger, balance)
    why_not = reasons_to_abstain(balance, first, len(line.requests))
    sure = confidence(balance, first, len(line.requests), found)
    by_cause = causes(balance, meanwhile, missed, given)
    abstained = bool(why_not)
    return Attribution(
        run=data.run.run,
        validity=data.run.validity,
        time_class=None if abstained else first.time_class,
        cause=None if abstained else next(iter(by_cause), None),
        confidence=0.0 if abstained else sure,
        abstained=abstained,
        shares={name: round(share, 6) for name, share in balance.by_class.items()},
        overshoot=round(balance.overshoot, 6),
        evidence=found.evidence,
        ruled_out=ruled_out(balance, step.is_bounded, phase.source != "client"),
        would_disprove=[] if abstained else [WOULD_DISPROVE[first.time_class]],
        causes={cause: round(share, 6) for cause, share in by_cause.items()},
        notes=[f"Abstained: {why}." for why in why_not]
        + found.notes
        + [f"Confidence lowered: {why}." for _factor, why in found.doubts],
    )


def _seen(data: RunData, line: Timeline, found: Findings) -> Seen | None:
    """Return what the metrics pages say of this run, and doubt them where they stop early."""
    zero = data.unix_zero_s
    start = zero + float((line.sent - line.client_wait).min()) if zero is not None else None
    end = zero + float(line.end.max()) if zero is not None else None
    seen = see(data.scrapes, start, end)
    if seen is None:
        if data.scrapes:
            found.doubt(0.9, "fewer than two readings of the metrics page")
        return None
    if seen.covered_ratio < MIN_COVERED_RATIO:
        found.doubt(
            max(0.5, seen.covered_ratio),
            f"the metrics pages were read for {seen.covered_ratio:.0%} of the run only",
        )
    if seen.num_resets:
        found.doubt(0.8, "a counter fell during the run: an engine restarted")
    return seen


def _doubt_sources(data: RunData, found: Findings) -> None:
    """Lower the confidence for what could not be looked at."""
    if not data.scrapes:
        found.doubt(0.85, f"no metrics page ({data.absent.get('metrics', 'none was read')})")
    for source, why in data.absent.items():
        if source != "metrics":
            found.notes.append(f"Not seen: {source} ({why}).")
    if data.run.validity.verdict == "invalid":
        codes = ", ".join(reason.code for reason in data.run.validity.reasons)
        found.doubt(0.5, f"the run is invalid ({codes})")
    elif data.run.validity.verdict == "warnings":
        found.doubt(0.9, "the run has warnings")


def _nothing(data: RunData, found: Findings) -> Attribution:
    return Attribution(
        run=data.run.run,
        validity=data.run.validity,
        time_class=None,
        cause=None,
        confidence=0.0,
        abstained=True,
        shares={**dict.fromkeys(TIME_CLASSES, 0.0), "unexplained": 1.0},
        overshoot=0.0,
        evidence=found.evidence,
        ruled_out=[],
        would_disprove=[],
        causes={},
        notes=found.notes,
    )
