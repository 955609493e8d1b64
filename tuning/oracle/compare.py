"""One set of answers against the reference: what differs while the context is still the same.

Two greedy answers share their context up to and including the first position where they differ.
There, log-probabilities can be compared token by token; after it, agreement is chance and nothing
is counted. Logarithms are natural, so 0.05 is a change of a token's probability by 5 %.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tuning.oracle.answers import Answer
from tuning.oracle.repetition import is_repetition

# How servers write the end token among the alternatives; llama.cpp prints control tokens as "".
END_TOKENS = ("", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>", "<eos>", "<end_of_turn>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """The first position where a greedy answer left the reference.

    margin: log-probability of the reference's token less that of the other token, both by the
    reference; where the other token is not among the alternatives, the least it can be.
    """

    prompt_index: int
    position: int
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Figures of one pass over the prompts against the reference; no text is kept.

    shift: mean |change of log-probability| over the likeliest tokens of every shared context;
    chosen_shift: the same for the reference's own token. None where there is nothing to compare.
    num_cut: answers that ended for want of room before the tokens that were asked for.
    text_agreement: mean fraction of the reference text that begins alike.
    """

    name: str
    num_prompts: int
    num_compared: int
    shift: float | None
    chosen_shift: float | None
    shift_rms: float | None
    flips: list[Flip]
    num_equal: int
    num_tokens: int
    num_cut: int
    num_empty: int
    num_repeating: int
    finish_reasons: dict[str, int]
    text_agreement: float


def compare(
    name: str, reference: Sequence[Answer], answers: Sequence[Answer], max_tokens: int
) -> Comparison:
    """Return the figures of `answers`, which are in the order of `reference`."""
    pairs = list(zip(reference, answers, strict=True))
    shared = [_shared(one, other) for one, other in pairs]
    deltas = [
        delta
        for (one, other), positions in zip(pairs, shared, strict=True)
        for at in range(positions)
        if (delta := _deltas(one, other, at))
    ]
    chosen = [
        abs(one.logprobs[at] - value)
        for (one, other), positions in zip(pairs, shared, strict=True)
        for at in range(positions)
        if (value := _logprob(other, at, one.tokens[at])) is not None
    ]
    every = list(itertools.chain.from_iterable(deltas))
    return Comparison(
        name=name,
        num_prompts=len(pairs),
        num_compared=len(deltas),
        shift=_mean([_mean(d) or 0.0 for d in deltas]),
        chosen_shift=_mean(chosen),
        shift_rms=math.sqrt(sum(d * d for d in every) / len(every)) if every else None,
        flips=[f for one, other in pairs if (f := _flip(one, other)) is not None],
        num_equal=sum(_is_equal(one, other) for one, other in pairs),
        num_tokens=sum(_length(a) for a in answers),
        num_cut=sum(_is_cut(a, max_tokens) for a in answers),
        num_empty=sum(not a.text.strip() for a in answers),
        num_repeating=sum(is_repetition(a.text) for a in answers),
        finish_reasons=dict(sorted(Counter(str(a.finish_reason) for a in answers).items())),
        text_agreement=_mean([_agreement(one.text, other.text) for one, other in pairs]) or 0.0,
    )


def _divergence(reference: Answer, answer: Answer) -> int | None:
    """Return the first position that differs; None where the tokens are equal to the end."""
    for at, (one, other) in enumerate(zip(reference.tokens, answer.tokens, strict=False)):
        if one != other:
            return at
    shorter = min(len(reference.tokens), len(answer.tokens))
    return None if len(reference.tokens) == len(answer.tokens) else shorter


def _shared(reference: Answer, answer: Answer) -> int:
    """Return how many positions were computed from the same context by both."""
    at = _divergence(reference, answer)
    both = min(len(reference.tokens), len(answer.tokens))
    return both if at is None else min(at + 1, both)


def _deltas(reference: Answer, answer: Answer, at: int) -> list[float]:
    """Return |change| for the tokens that both list at one position."""
    ours = {**reference.top[at], reference.tokens[at]: reference.logprobs[at]}
    theirs = {**answer.top[at], answer.tokens[at]: answer.logprobs[at]}
    return [
        abs(value - theirs[token])
        for token, value in ours.items()
        if token in theirs and math.isfinite(value) and math.isfinite(theirs[token])
    ]


def _logprob(answer: Answer, at: int, token: str) -> float | None:
    if answer.tokens[at] == token:
        return answer.logprobs[at]
    return answer.top[at].get(token)


def _flip(reference: Answer, answer: Answer) -> Flip | None:
    at = _divergence(reference, answer)
    has_no_logprobs = answer.text and not answer.tokens
    if at is None or not reference.tokens or has_no_logprobs:
        return None
    if at == len(reference.tokens):  # the reference ended here; what it gave the end is unknown
        return Flip(
            prompt_index=reference.prompt_index, position=at, margin=_end_margin(answer, at)
        )
    own, likeliest = reference.logprobs[at], reference.top[at]
    names = END_TOKENS if at == len(answer.tokens) else (answer.tokens[at],)
    known = [likeliest[name] for name in names if name in likeliest]
    other = max(known) if known else min(likeliest.values(), default=own)
    return Flip(prompt_index=reference.prompt_index, position=at, margin=max(own - other, 0.0))


def _end_margin(answer: Answer, at: int) -> float:
    """Return how far the end token fell behind in an answer that went on; 0 if it is not listed."""
    known = [answer.top[at][name] for name in END_TOKENS if name in answer.top[at]]
    if not known:
        return max(answer.logprobs[at] - min(answer.top[at].values(), default=0.0), 0.0)
    return max(answer.logprobs[at] - max(known), 0.0)


def _is_equal(reference: Answer, answer: Answer) -> bool:
    if reference.tokens and answer.tokens:
        return reference.tokens == answer.tokens
    return reference.text == answer.text


def _length(answer: Answer) -> int:
    return answer.num_tokens if answer.num_tokens is not None else len(answer.tokens)


def _is_cut(answer: Answer, max_tokens: int) -> bool:
    return answer.finish_reason not in ("stop", "tool_calls") and _length(answer) < max_tokens


def _agreement(reference: str, text: str) -> float:
    same = sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], zip(reference, text)))  # noqa: B905
    return same / len(reference) if reference else float(not text)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
