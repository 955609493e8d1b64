"""Recorded traffic becomes prompts with arrival times: one reader a format, rows in between.

A trace has lengths and times, not text: the text is made, and blocks that the trace says were the
same are the same again.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from teardown.errors import UsageError
from teardown.workload.synthetic import Line
from teardown.workload.traces import azure, burstgpt, lengths, mooncake
from teardown.workload.traces.row import Row
from teardown.workload.words import text_of
from teardown.workload_settings import TraceFormat

Reader = Callable[[Iterable[str], str], Iterator[Row]]
READERS: Final[dict[str, Reader]] = {
    "azure": azure.read,
    "burstgpt": burstgpt.read,
    "lengths": lengths.read,
    "mooncake": mooncake.read,
}
# Text that a trace may become; it is held in memory by the load process.
MOST_TOKENS: Final = 60_000_000


def trace_lines(
    path: Path, kind: TraceFormat, seed: int, *, most: int | None, until_s: float | None
) -> list[Line]:
    """Return the prompts of the trace at `path`, in the order of their times, which begin at 0.

    most, until_s: how many requests and how many seconds of the trace to take; None: all.
    UsageError names the file and the line that is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"trace {path} cannot be read: {error}") from error
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    reader = READERS[detect(first, path) if kind == "auto" else kind]
    rows = sorted(reader(lines, str(path)), key=lambda row: row.at_s)
    if not rows:
        raise UsageError(f"trace {path} has no requests")
    start_s = rows[0].at_s
    taken = [r for r in rows[:most] if until_s is None or r.at_s - start_s < until_s]
    num_tokens = sum(row.prompt_tokens for row in taken)
    if num_tokens > MOST_TOKENS:
        raise UsageError(
            f"trace {path}: its {len(taken)} requests are {num_tokens} prompt tokens, more than "
            f"{MOST_TOKENS}; take fewer with `requests` or `duration_s`"
        )
    return [_line(row, number, start_s, seed) for number, row in enumerate(taken)]


def detect(first: str, path: Path) -> str:
    """Return the format by the first line; UsageError with the formats there are."""
    if first.lstrip().startswith("{"):
        return "mooncake" if '"input_length"' in first else "lengths"
    columns = {column.strip().strip('"') for column in first.split(",")}
    if {"ContextTokens", "GeneratedTokens"} <= columns:
        return "azure"
    if {"Request tokens", "Response tokens"} <= columns:
        return "burstgpt"
    raise UsageError(
        f"trace {path}: its first line {first[:60]!r} is of no known format; "
        f"`trace_format` can be {', '.join(sorted(READERS))}"
    )


def _line(row: Row, number: int, start_s: float, seed: int) -> Line:
    line: Line = {
        "messages": [{"role": "user", "content": _text(row, number, seed)}],
        "max_tokens": max(row.output_tokens, 1),
        "at_s": round(row.at_s - start_s, 6),
    }
    return line | ({} if row.session is None else {"session": row.session})


def _text(row: Row, number: int, seed: int) -> str:
    """Return the prompt: a text for each block, the last one cut to the prompt's length."""
    parts, left = [], row.prompt_tokens
    for block in row.blocks:
        parts.append(text_of(f"{seed}/block {block}", min(left, row.block_tokens)))
        left -= row.block_tokens
        if left <= 0:
            break
    if left > 0:
        parts.append(text_of(f"{seed}/row {number}", left))
    return " ".join(parts)
