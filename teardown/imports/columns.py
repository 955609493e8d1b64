"""Which column of a gateway's log says what: `--map ts=arrival,prompt=input_tokens`.

Either order is taken: of the two names one is a column of the log and the other one of FIELDS. A
number in place of a column (`64=block_tokens`) holds for every line.
"""

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from teardown.errors import UsageError

# The kit's word -> what it holds.
FIELDS: Final[dict[str, str]] = {
    "arrival": "when the request came: ISO 8601, or Unix seconds",
    "arrival_ms": "the same in milliseconds",
    "arrival_us": "the same in microseconds",
    "arrival_ns": "the same in nanoseconds",
    "input_tokens": "tokens of the prompt",
    "output_tokens": "tokens of the answer",
    "cached_tokens": "tokens of the prompt that came from a cache",
    "session": "conversation, user or call",
    "hashes": "hashes of the prompt's blocks from its start, a list or divided by spaces",
    "block_tokens": "tokens of one such block",
    "text": "the prompt's text; only hashes of it are kept",
}
ARRIVALS: Final = ("arrival", "arrival_ms", "arrival_us", "arrival_ns")
# What gateways call them (LiteLLM, OpenAI's usage, Mooncake), where --map does not say.
USUAL: Final[dict[str, tuple[str, ...]]] = {
    "arrival": ("arrival", "ts", "timestamp", "time", "startTime", "start_time", "created_at"),
    "arrival_ms": ("arrival_ms", "timestamp_ms", "ts_ms"),
    "arrival_us": ("arrival_us", "timestamp_us", "ts_us"),
    "arrival_ns": ("arrival_ns", "timestamp_ns", "ts_ns"),
    "input_tokens": ("input_tokens", "prompt_tokens", "input_length", "ContextTokens"),
    "output_tokens": ("output_tokens", "completion_tokens", "output_length", "GeneratedTokens"),
    "cached_tokens": ("cached_tokens", "cache_read_tokens", "cache_read_input_tokens"),
    "session": ("session", "session_id", "conversation_id"),
    "hashes": ("hashes", "hash_ids", "block_hashes"),
    "block_tokens": ("block_tokens", "block_size"),
}


def columns_of(asked: str | None, columns: Collection[str], where: str) -> dict[str, str]:
    """Return column (or number) by field; UsageError names what is missing or does not exist."""
    found = _asked(asked, columns, where) if asked else {}
    has_arrival = any(name in found for name in ARRIVALS)
    for field, names in USUAL.items():
        if field in found or (field in ARRIVALS and has_arrival):
            continue
        column = next((name for name in names if name in columns), None)
        if column is not None and column not in found.values():
            found[field] = column
    arrivals = [name for name in ARRIVALS if name in found]
    if len(arrivals) > 1:
        raise UsageError(
            f"{where}: {' and '.join(found[a] for a in arrivals)} both look like the arrival; "
            f"say which with --map {found[arrivals[0]]}={arrivals[0]}"
        )
    missing = [] if arrivals else ["arrival"]
    missing += [name for name in ("input_tokens",) if name not in found]
    if missing:
        raise UsageError(
            f"{where}: no column for {' and '.join(missing)}; name it with --map "
            f"COLUMN={missing[0]}; columns: {', '.join(columns)}"
        )
    return found


def _asked(text: str, columns: Collection[str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        left, sign, right = (part.strip() for part in pair.partition("="))
        if not sign or not left or not right:
            raise UsageError(f"--map: {pair!r} is not COLUMN=FIELD")
        field, column = _which(left, right, columns, where)
        if field in found:
            raise UsageError(f"--map names {field} twice")
        found[field] = column
    return found


def _which(left: str, right: str, columns: Collection[str], where: str) -> tuple[str, str]:
    """Return field and column of one pair, the first order that fits."""
    for column, field in ((left, right), (right, left)):
        is_number = field == "block_tokens" and column.isdecimal()
        if field in FIELDS and (column in columns or is_number):
            return field, column
    known: Mapping[str, str] = FIELDS
    for field, column in ((right, left), (left, right)):
        if field in known:
            near = difflib.get_close_matches(column, columns, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"columns: {', '.join(columns)}"
            raise UsageError(f"{where}: there is no column {column!r}; {hint}")
    near = difflib.get_close_matches(right, known, n=1) or difflib.get_close_matches(
        left, known, n=1
    )
    hint = f"did you mean {near[0]!r}?" if near else f"fields: {', '.join(known)}"
    raise UsageError(f"--map: neither {left!r} nor {right!r} is a field; {hint}")
