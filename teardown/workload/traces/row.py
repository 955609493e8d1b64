"""One request of a trace, whatever its format, and how fields of a row are read."""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from teardown.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Time in seconds of the trace's own clock, lengths in tokens.

    blocks: ids of the prompt's blocks of `block_tokens` from its start; equal ids, equal text.
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    session: str | None = None
    blocks: tuple[int, ...] = ()
    block_tokens: int = 512


class Fields(NamedTuple):
    """One line of a trace as names and values, and where it stands."""

    values: Mapping[str, Any]
    where: str

    def number(self, name: str) -> float:
        """Return a field as a finite number that is not negative; UsageError where it is none."""
        try:
            found = float(self.values[name])
        except (KeyError, TypeError, ValueError):
            found = math.nan
        if not 0 <= found < math.inf:
            raise UsageError(
                f"{self.where}: `{name}` is {self.values.get(name)!r}, not a number from 0 up"
            )
        return found

    def count(self, name: str) -> int:
        """Return a field as a whole number; UsageError where it is none."""
        found = self.number(name)
        if found != int(found):
            raise UsageError(f"{self.where}: `{name}` is {found:g}, not a whole number")
        return int(found)


def csv_fields(lines: Iterable[str], source: str) -> Iterator[Fields]:
    """Yield the rows of a CSV file with a header."""
    for number, values in enumerate(csv.DictReader(lines), 2):
        yield Fields(values, f"trace {source}, line {number}")


def json_fields(lines: Iterable[str], source: str) -> Iterator[Fields]:
    """Yield the objects of a JSON Lines file; UsageError names a line that is none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"trace {source}, line {number}"
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{where}: not JSON ({error})") from error
        if not isinstance(values, dict):
            raise UsageError(f"{where}: not a JSON object")
        yield Fields(values, where)


def blocks_of(fields: Fields, name: str = "hash_ids") -> tuple[int, ...]:
    """Return the block ids of a row, none where it has none; UsageError where they are no ids."""
    found = fields.values.get(name) or []
    if not isinstance(found, list) or any(not isinstance(item, int) for item in found):
        raise UsageError(f"{fields.where}: `{name}` is not a list of whole numbers")
    return tuple(found)
