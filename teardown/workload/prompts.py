"""The client's prompts: JSON Lines, one request a line, turns of a session in order.

    {"messages": [{"role": "user", "content": "..."}], "max_tokens": 40, "session": "s1"}
    {"prompt": "..."}
    {"input": "..."}                     the responses endpoint; or a list of its input items

Each line carries its whole history, as it was logged: a replay asks the same of every stack.
"""

import bisect
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teardown.errors import UsageError

KINDS = ("messages", "prompt", "input")  # by endpoint: chat completions, completions, responses
KEYS = {*KINDS, "max_tokens", "session", "at_s", "extra"}
# Characters hashed together when looking for shared prefixes: about one token of English text.
BLOCK_CHARS = 4
# Characters that the run's salt and the chat template put before the client's own text.
PREAMBLE_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One line of the prompts file; `text` is what a prefix cache would see, roles included."""

    index: int
    session: str
    turn: int
    max_tokens: int | None
    at_s: float | None
    body: dict[str, Any]
    text: str
    sha256: str


def read_prompts(path: Path) -> list[Prompt]:
    """Read a prompts file; UsageError names the file and the line that is wrong."""
    try:
        # by LF alone: a JSON text may hold other line separators, such as U+2028
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompts file {path} cannot be read: {error}") from error
    turns: dict[str, int] = {}
    prompts = []
    for number, line in enumerate(lines):
        if line.strip():
            prompts.append(_parse(line, number, f"{path}, line {number + 1}", turns))
    if not prompts:
        raise UsageError(f"prompts file {path} has no prompts")
    return prompts


def _parse(line: str, number: int, where: str, turns: dict[str, int]) -> Prompt:
    try:
        item = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON ({error})") from error
    if not isinstance(item, dict) or sum(kind in item for kind in KINDS) != 1:
        raise UsageError(f"{where}: needs either `messages`, or `prompt`, or `input`")
    unknown = sorted(set(item) - KEYS)
    if unknown:
        raise UsageError(f"{where}: unknown key `{unknown[0]}`; known: {', '.join(sorted(KEYS))}")
    max_tokens = item.get("max_tokens")
    if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 1):
        raise UsageError(f"{where}: max_tokens must be a positive whole number")
    at_s = item.get("at_s")
    if at_s is not None and not (isinstance(at_s, int | float) and 0 <= at_s < math.inf):
        raise UsageError(f"{where}: at_s must be a number of seconds from 0 up")
    text = _text(item, where)
    session = str(item.get("session", f"line-{number + 1}"))
    turn = turns.get(session, 0)
    turns[session] = turn + 1
    return Prompt(
        index=number,
        session=session,
        turn=turn,
        max_tokens=max_tokens,
        at_s=at_s,
        body={k: item[k] for k in (*KINDS, "extra") if k in item},
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
    )


def _text(item: dict[str, Any], where: str) -> str:
    if "prompt" in item:
        if not isinstance(item["prompt"], str):
            raise UsageError(f"{where}: `prompt` must be a string")
        return item["prompt"]
    kind = "input" if "input" in item else "messages"
    messages = item[kind]
    if kind == "input" and isinstance(messages, str):
        return messages
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{where}: `{kind}` must be a list with at least one message")
    for message in messages:
        if not isinstance(message, dict) or ("role" not in message and kind == "messages"):
            raise UsageError(f"{where}: every message needs a `role`")
    return "\n".join(f"{m.get('role', '')}: {m.get('content') or ''}" for m in messages)


def reusable_ratio(prompts: list[Prompt]) -> float:
    """Return the fraction of prompt text that an ideal prefix cache would serve, in this order.

    A block counts as reusable when an earlier prompt had the same text up to its end. The longest
    beginning shared with any earlier text is the one shared with a neighbour in sorted order.
    """
    seen: list[str] = []
    reusable = total = 0
    for prompt in prompts:
        text = prompt.text
        total += len(text) + PREAMBLE_CHARS
        reusable += PREAMBLE_CHARS if seen else 0
        at = bisect.bisect_left(seen, text)
        shared = max((_num_shared(text, near) for near in seen[max(at - 1, 0) : at + 1]), default=0)
        reusable += shared - shared % BLOCK_CHARS
        seen.insert(at, text)
    return reusable / total if total else 0.0


def _num_shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common from the start, by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
