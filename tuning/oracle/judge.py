"""Whether a stack still gives the reference's answers, to within what the reference does itself.

Every band is the reference against itself: the worst of its noise passes times a margin, and at
least a floor. Measured on SmolLM2-135M (Q4_1 weights, 8 prompts of about 270 tokens, llama.cpp
through xllamacpp 2026.10, 2026-11), mean change of the log-probabilities against an f16 cache:

    same stack again                                           0           0
    other slots, step size, prompt cache, threads, attention   0.06-0.075  0.04-0.08
    q8_0 cache                                                 0.08        0.09
    q4_0 values alone                                          0.12
    q4_0 cache                                                 0.29        0.38

Left: made-up questions to a library, 40 tokens; right: the demo's chats, 48 tokens.
"""

from collections.abc import Sequence

from teardown.records import OracleCheck, OracleResult
from tuning.oracle.answers import Answer
from tuning.oracle.compare import Comparison, compare
from tuning.oracle.reference import Reference

# Harmless changes scatter by 2 to 7 % over sets of 8 prompts (bootstrap) and differ by a quarter
# from each other: half above the worst pass leaves room for both. A cache with only its values at
# 4 bits moves 1.8 times as far as the noise, one with both 4 times. A pass that only switches the
# prompt cache on is no twin: prompts that hit nothing stay bit-identical, so it shows half.
SHIFT_MARGIN = 1.5
# Where nothing varies (one slot, no twin): a change of a token's probability by 2 % is what
# bf16 kernels in another order do (2^-8 a step, over tens of layers).
SHIFT_FLOOR = 0.02
# A flip needs the gap between two log-probabilities to move by its margin. That gap moves by
# sqrt(2) times one of them, and the largest of some hundred positions is near 4 such deviations.
MARGIN_DEVIATIONS = 4.0 * 2**0.5
MARGIN_FLOOR = 0.1
# Flips are counts: with 5 expected, 5 in 1000 stacks would show 12 by chance (Poisson).
FLIP_DEVIATIONS = 3.0
# Two near-ties in a set of prompts mean nothing, whatever the passes showed.
FLIPS_FLOOR = 2.0
# After a near-tie an answer may end elsewhere: with 8 prompts one of them moves the total by 1/8.
LENGTH_FLOOR = 0.25
LENGTH_MARGIN = 2.0
# A near-tie may lead a small model into a loop: seen once in 8 answers with another attention
# kernel (SmolLM2-135M, 2026-11). An empty answer has no such excuse.
REPEATING_RATIO = 1 / 8
# Texts without log-probabilities: half of the agreement that the reference has with itself.
TEXT_MARGIN = 0.5
# Fewer shared positions than this and the log-probabilities say nothing.
MIN_COMPARED = 8


def judge(
    reference: Reference, noise: Sequence[Comparison], candidate: Sequence[Answer]
) -> OracleResult:
    """Return whether `candidate` (answers in the prompts' order) passes, check by check.

    noise: comparisons of the reference with itself, `reference.record.noise` or more of them.
    """
    record = reference.record
    if len(candidate) != len(reference.answers):
        missing = _check(
            "answers", len(candidate), len(reference.answers), False, "answers are missing"
        )
        return OracleResult(
            passed=False,
            reference_sha256=reference.sha256,
            num_prompts=len(candidate),
            num_tokens=0,
            checks=[missing],
        )
    found = compare("candidate", reference.answers, candidate, record.max_tokens)
    own = compare("reference", reference.answers, reference.answers, record.max_tokens)
    has_logprobs = own.shift is not None
    checks = [_shift(found, noise), _margin(found, noise), _flips(found, noise)]
    if not has_logprobs:
        checks = [_texts(found, noise)]
    checks += [
        _rollouts(found, noise),
        _lengths(found, noise, own),
        _endings(found, noise, own),
        _degeneration(found, noise, own),
    ]
    return OracleResult(
        passed=all(check.holds for check in checks),
        reference_sha256=reference.sha256,
        num_prompts=found.num_prompts,
        num_tokens=found.num_tokens,
        checks=checks,
    )


def _shift(found: Comparison, noise: Sequence[Comparison]) -> OracleCheck:
    worst = max((n.shift for n in noise if n.shift is not None), default=0.0)
    band = max(worst * SHIFT_MARGIN, SHIFT_FLOOR)
    if found.shift is None or found.num_compared < MIN_COMPARED:
        says = f"only {found.num_compared} shared positions: too few to compare probabilities"
        return _check("log-probabilities", found.shift, band, False, says)
    says = (
        f"token log-probabilities moved by {found.shift:.3f} on average over {found.num_compared} "
        f"shared positions; the reference moves by up to {worst:.3f} against itself, "
        f"allowed {band:.3f}"
    )
    return _check("log-probabilities", found.shift, band, found.shift <= band, says)


def _margin(found: Comparison, noise: Sequence[Comparison]) -> OracleCheck:
    seen = max((f.margin for n in noise for f in n.flips), default=0.0)
    spread = max((n.shift_rms for n in noise if n.shift_rms is not None), default=0.0)
    band = max(seen, MARGIN_DEVIATIONS * spread, MARGIN_FLOOR)
    largest = max((f.margin for f in found.flips), default=0.0)
    says = (
        f"the clearest token that flipped was ahead by {largest:.3f} in the reference; noise "
        f"explains up to {band:.3f}"
        if found.flips
        else "no token flipped"
    )
    return _check("flip margin", largest, band, largest <= band, says)


def _flips(found: Comparison, noise: Sequence[Comparison]) -> OracleCheck:
    """Flips per shared position against those of the noisiest pass."""
    rate = max((len(n.flips) / n.num_compared for n in noise if n.num_compared), default=0.0)
    expected = max(rate * found.num_compared, FLIPS_FLOOR)
    band = min(expected + FLIP_DEVIATIONS * expected**0.5, float(found.num_prompts))
    number = len(found.flips)
    says = (
        f"{number} of {found.num_prompts} answers left the reference within {found.num_compared} "
        f"shared positions; noise explains up to {band:.1f}"
    )
    return _check("first divergence", number, band, number <= band, says)


def _rollouts(found: Comparison, noise: Sequence[Comparison]) -> OracleCheck:
    """Whole answers equal: shown, not judged; one near-tie changes all that follows it."""
    fewest = min((n.num_equal for n in noise), default=None)
    beside = "" if fewest is None else f" (the reference against itself: {fewest} at least)"
    says = f"{found.num_equal} of {found.num_prompts} answers equal to the last token{beside}"
    return _check("whole answers", found.num_equal, None, True, says)


def _lengths(found: Comparison, noise: Sequence[Comparison], own: Comparison) -> OracleCheck:
    total = max(own.num_tokens, 1)
    moved = max((abs(n.num_tokens / total - 1) for n in noise), default=0.0)
    band = max(moved * LENGTH_MARGIN, LENGTH_FLOOR)
    change = found.num_tokens / total - 1
    says = (
        f"{found.num_tokens} tokens in all where the reference has {own.num_tokens} "
        f"({change:+.0%}; allowed ±{band:.0%})"
    )
    return _check("length", abs(change), band, abs(change) <= band, says)


def _endings(found: Comparison, noise: Sequence[Comparison], own: Comparison) -> OracleCheck:
    """Answers cut short, and ends for reasons that the reference never gives."""
    known = set(own.finish_reasons).union(*(n.finish_reasons for n in noise), {"stop", "length"})
    strange = {k: n for k, n in found.finish_reasons.items() if k not in known}
    number = max(found.num_cut - own.num_cut, 0) + sum(strange.values())
    reasons = ", ".join(f"{n} {k}" for k, n in found.finish_reasons.items())
    says = f"{number} answers cut or ended for a new reason (ends: {reasons})"
    return _check("finish reasons", number, 0.0, number == 0, says)


def _degeneration(found: Comparison, noise: Sequence[Comparison], own: Comparison) -> OracleCheck:
    empty = max([own.num_empty, *(n.num_empty for n in noise)])
    looping = max([own.num_repeating, *(n.num_repeating for n in noise)])
    looping += max(1, int(found.num_prompts * REPEATING_RATIO))
    holds = found.num_empty <= empty and found.num_repeating <= looping
    says = (
        f"{found.num_empty} of {found.num_prompts} answers empty (allowed {empty}), "
        f"{found.num_repeating} a repetition (allowed {looping})"
    )
    number = found.num_empty + found.num_repeating
    return _check("degeneration", number, empty + looping, holds, says)


def _texts(found: Comparison, noise: Sequence[Comparison]) -> OracleCheck:
    """The weak form, for servers without log-probabilities."""
    least = min((n.text_agreement for n in noise), default=1.0) * TEXT_MARGIN
    says = (
        f"the server gives no log-probabilities, so only texts are compared: answers agree for "
        f"{found.text_agreement:.0%} of their length, at least {least:.0%} is asked"
    )
    holds = found.text_agreement >= least
    return _check("text agreement", found.text_agreement, least, holds, says)


def _check(
    name: str, value: float | None, band: float | None, holds: bool, says: str
) -> OracleCheck:
    return OracleCheck(
        name=name,
        value=None if value is None else round(float(value), 5),
        band=None if band is None else round(float(band), 5),
        holds=holds,
        says=says,
    )
