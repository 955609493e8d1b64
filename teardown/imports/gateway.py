"""Gateway logs, CSV or JSON Lines, into rows of a workload: times, lengths, sessions, blocks.

Nothing is sent. Rows without a length (a request that failed) are counted as arrivals and left out
of the workload. Texts are hashed here and go no further.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from teardown.errors import UsageError
from teardown.imports.columns import ARRIVALS, columns_of
from teardown.imports.document import LARGEST_COUNT, read_text

UNIT_S: Final = {"arrival": 1.0, "arrival_ms": 1e-3, "arrival_us": 1e-6, "arrival_ns": 1e-9}
# Unix seconds beyond this (the year 5138) are a finer unit under the wrong name.
LATEST_S: Final = 1e11
# Characters of a prompt that are hashed together: about 16 tokens, the block of most engines.
TEXT_BLOCK_CHARS: Final = 64
DIVIDERS: Final = str.maketrans(dict.fromkeys(",;|[]\"'", " "))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One line of a log. at_s: Unix seconds, or seconds of the log's own clock."""

    at_s: float
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None = None
    session: str | None = None
    blocks: tuple[str, ...] = ()
    text_chars: int = 0
    block_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A whole log, in the order of its arrivals, and which column was read as what."""

    rows: list[LogRow]
    columns: dict[str, str]
    lost: list[str] = field(default_factory=list)


def read(path: Path, mapping: str | None) -> Log:
    """Return the log at `path`; UsageError names the line and the column that is wrong."""
    text = read_text(path)
    is_json = text.lstrip()[:1] == "{"
    lines = list(_json_lines(text, path) if is_json else _csv_lines(text, path))
    if not lines:
        raise UsageError(f"{path} holds no request")
    names = dict.fromkeys(name for values, _ in lines for name in values)
    columns = columns_of(mapping, list(names), str(path))
    rows = [_row(values, columns, where) for values, where in lines]
    lost = []
    if "output_tokens" not in columns:
        lost.append(
            "output lengths: the log has no column for them; every request asks for a token"
        )
    if "session" not in columns:
        lost.append("sessions: the log has no column for them, so every request stands alone")
    if "hashes" not in columns and "text" not in columns:
        lost.append("prefix reuse: the log has neither block hashes nor texts")
    return Log(rows=sorted(rows, key=lambda row: row.at_s), columns=columns, lost=lost)


def _json_lines(text: str, path: Path) -> Iterator[tuple[Mapping[str, Any], str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}: not JSON ({error})") from error
        if not isinstance(values, dict):
            raise UsageError(f"{where}: not a JSON object")
        yield _flat(values), where


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested objects as `usage.prompt_tokens`, so that a column map can name them."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and prefix.count(".") < 8:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _csv_lines(text: str, path: Path) -> Iterator[tuple[Mapping[str, Any], str]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        if not reader.fieldnames or len(reader.fieldnames) < 2:
            raise UsageError(f"{path}, line 1: neither JSON nor a header of columns")
        for values in reader:
            where = f"{path}, line {reader.line_num}"
            if None in values:
                raise UsageError(f"{where}: more cells than the header has columns")
            yield values, where
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: {error}") from error


def _row(values: Mapping[str, Any], columns: Mapping[str, str], where: str) -> LogRow:
    text = values.get(columns["text"]) if "text" in columns else None
    prompt = None if text in (None, "") else text if isinstance(text, str) else json.dumps(text)
    blocks = _blocks(values, columns, where) if "hashes" in columns else ()
    if prompt is not None and not blocks:
        blocks = tuple(
            prompt[i : i + TEXT_BLOCK_CHARS] for i in range(0, len(prompt), TEXT_BLOCK_CHARS)
        )
    session = values.get(columns.get("session", ""))
    return LogRow(
        at_s=_arrival(values, columns, where),
        input_tokens=_count(values, columns, "input_tokens", where),
        output_tokens=_count(values, columns, "output_tokens", where),
        cached_tokens=_count(values, columns, "cached_tokens", where),
        session=None if session in (None, "") else str(session),
        blocks=blocks,
        text_chars=0 if prompt is None or "hashes" in columns else len(prompt),
        block_tokens=_block_tokens(values, columns, where),
    )


def _arrival(values: Mapping[str, Any], columns: Mapping[str, str], where: str) -> float:
    name = next(a for a in ARRIVALS if a in columns)
    column = columns[name]
    cell = values.get(column)
    number = _number(cell)
    if number is None and name == "arrival" and isinstance(cell, str):
        try:
            stamp = datetime.fromisoformat(cell.strip())
            return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    if number is None:
        raise UsageError(f"{where}: `{column}` is {_shown(cell)}, not a time (ISO 8601 or Unix)")
    found = number * UNIT_S[name]
    if not 0 <= found <= LATEST_S:
        raise UsageError(
            f"{where}: `{column}` is {_shown(cell)}, which is no time in that unit; "
            f"--map {column}=arrival_ms, arrival_us or arrival_ns name finer ones"
        )
    return found


def _count(
    values: Mapping[str, Any], columns: Mapping[str, str], name: str, where: str
) -> int | None:
    """Return a whole number; None for an empty cell."""
    if name not in columns or values.get(columns[name]) in (None, ""):
        return None
    cell = values[columns[name]]
    number = _number(cell)
    if number is None or not 0 <= number <= LARGEST_COUNT or number != int(number):
        raise UsageError(
            f"{where}: `{columns[name]}` is {_shown(cell)}, not a whole number from 0 up"
        )
    return int(number)


def _block_tokens(values: Mapping[str, Any], columns: Mapping[str, str], where: str) -> int | None:
    name = columns.get("block_tokens")
    if name is not None and name not in values and name.isdecimal():
        values, columns = {name: name}, {"block_tokens": name}
    found = _count(values, columns, "block_tokens", where)
    if found == 0 or (found or 0) > 2**20:
        raise UsageError(f"{where}: a block of {found} tokens cannot be meant")
    return found


def _blocks(values: Mapping[str, Any], columns: Mapping[str, str], where: str) -> tuple[str, ...]:
    cell = values.get(columns["hashes"])
    if cell in (None, ""):
        return ()
    if isinstance(cell, list):
        return tuple(str(item) for item in cell)
    if isinstance(cell, str | int):
        return tuple(str(cell).translate(DIVIDERS).split())
    raise UsageError(f"{where}: `{columns['hashes']}` is {_shown(cell)}, not a list of hashes")


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    try:
        return float(cell)
    except (ValueError, OverflowError):
        return None


def _shown(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else text[:57] + "..."
