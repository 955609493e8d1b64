"""Prompts by length: made by a seeded generator, with prefixes that groups of requests share."""

import math
import random
from typing import Any

from teardown.workload.words import text_of
from teardown.workload_settings import Lengths, SyntheticSettings

Line = dict[str, Any]  # one line of a prompts file


def synthetic_lines(made: SyntheticSettings, seed: int, number: int) -> list[Line]:
    """Return `number` prompts, sessions of `turns` one after the other; same seed, same lines.

    Session i has prefix i modulo `prefix_groups` as its system message. A later turn carries the
    whole history, with an answer of the asked length in the place of the model's own.
    """
    draw = random.Random(f"{seed}/lengths")
    lines: list[Line] = []
    for session in range(math.ceil(number / made.turns)):
        prompt_tokens = _length(made.prompt_tokens, draw, made.shared_prefix_tokens + 1)
        own_tokens = prompt_tokens - made.shared_prefix_tokens
        messages: list[dict[str, str]] = []
        if made.shared_prefix_tokens:
            group = session % made.prefix_groups
            shared = text_of(f"{seed}/prefix {group}", made.shared_prefix_tokens)
            messages.append({"role": "system", "content": shared})
        for turn in range(made.turns):
            asked = own_tokens if turn == 0 else made.turn_tokens
            output_tokens = _length(made.output_tokens, draw, 1)
            label = f"{seed}/{session}/{turn}"
            messages = [*messages, {"role": "user", "content": text_of(label, asked)}]
            lines.append(
                {"messages": messages, "session": f"s{session}", "max_tokens": output_tokens}
            )
            answer = text_of(f"{label}/answer", output_tokens)
            messages = [*messages, {"role": "assistant", "content": answer}]
    return lines[:number]


def _length(asked: int | Lengths, draw: random.Random, least: int) -> int:
    """Return a token count: as asked, or log-normal with the asked mean and cv.

    sigma² = ln(1 + cv²), mu = ln(mean) - sigma²/2 give that mean and cv before rounding.
    """
    if not isinstance(asked, Lengths):
        return max(asked, least)
    sigma = math.sqrt(math.log1p(asked.cv**2))
    return max(round(draw.lognormvariate(math.log(asked.mean) - sigma**2 / 2, sigma)), least)
