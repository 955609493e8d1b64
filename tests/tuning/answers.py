"""Made-up answers: a reference, and what harmless and harmful changes make of it."""

import random
from collections.abc import Sequence

from tuning.oracle import Answer

WORDS = [f" w{i}" for i in range(60)]
NUM_TOKENS = 40


def answer(index: int, seed: int = 0, margins: Sequence[float] | None = None) -> Answer:
    """Return one answer of 40 tokens; margins: by how much each token leads the runner-up."""
    rng = random.Random(f"{seed}-{index}")
    tokens = rng.sample(WORDS, NUM_TOKENS)
    margins = margins or [rng.choice([0.05, 0.5, 2.0, 4.0]) for _ in tokens]
    top = [
        {token: -0.2, token + "x": -0.2 - margin, token + "y": -1.0 - margin}
        for token, margin in zip(tokens, margins, strict=True)
    ]
    return made(index, tokens, [-0.2] * len(tokens), top)


def made(index, tokens, logprobs, top, finish_reason="length") -> Answer:
    return Answer(
        prompt_index=index,
        tokens=list(tokens),
        logprobs=list(logprobs),
        top=[dict(t) for t in top],
        finish_reason=finish_reason,
        text="".join(tokens),
        num_tokens=len(tokens),
    )


def reference(num: int = 8) -> list[Answer]:
    return [answer(i) for i in range(num)]


def moved(one: Answer, size: float, seed: int = 1) -> Answer:
    """Return `one` with every log-probability moved by about `size`, and greedy again.

    After the first flip the text is another one, as it is with a real model.
    """
    rng = random.Random(f"{seed}-{one.prompt_index}")
    tokens: list[str] = []
    top: list[dict[str, float]] = []
    for at, likeliest in enumerate(one.top):
        now = {token: value + rng.gauss(0, size) for token, value in likeliest.items()}
        best = max(now, key=now.__getitem__)
        tokens.append(best)
        top.append(now)
        if best != one.tokens[at]:
            rest = len(one.tokens) - at - 1
            other = answer(one.prompt_index, seed=99)
            tokens += other.tokens[:rest]
            top += other.top[:rest]
            break
    logprobs = [likeliest[token] for token, likeliest in zip(tokens, top, strict=True)]
    return made(one.prompt_index, tokens, logprobs, top)


def flipped(one: Answer, at: int) -> Answer:
    """Return `one` with the runner-up chosen at position `at`, its log-probabilities unmoved."""
    other = answer(one.prompt_index, seed=7)
    tokens = [*one.tokens[:at], one.tokens[at] + "x", *other.tokens[at + 1 :]]
    top = [*one.top[: at + 1], *other.top[at + 1 :]]
    logprobs = [likeliest[token] for token, likeliest in zip(tokens, top, strict=True)]
    return made(one.prompt_index, tokens, logprobs, top)


def cut(one: Answer, num: int, finish_reason: str) -> Answer:
    return made(
        one.prompt_index, one.tokens[:num], one.logprobs[:num], one.top[:num], finish_reason
    )


def without_logprobs(one: Answer) -> Answer:
    return Answer(
        prompt_index=one.prompt_index,
        finish_reason=one.finish_reason,
        text=one.text,
        num_tokens=one.num_tokens,
        reason="the server gave no log-probabilities",
    )
