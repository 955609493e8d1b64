"""Files of other tools, read so that whatever is wrong names the file and the place in it.

A `Node` is one value with its place (`result.json: benchmarks[0].config.strategy.rate`). Every
getter checks what it returns; UsageError says what was found and what was expected.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from teardown.errors import UsageError

# Beyond these no length, count or Unix time is meant: the file is damaged.
LARGEST_COUNT: Final = 2**53
LARGEST_NUMBER: Final = 1e15
LARGEST_NANOSECONDS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Node:
    """One JSON value and where it stands; `value` is None where the file has none."""

    value: Any
    where: str

    def fail(self, expected: str) -> NoReturn:
        """Raise UsageError: what stands here, and what should."""
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise UsageError(f"{self.where} is {shown}, not {expected}")

    def get(self, name: str) -> "Node":
        """Return the member `name`; of nothing, nothing."""
        if self.value is None:
            return Node(None, f"{self.where}.{name}")
        if not isinstance(self.value, dict):
            self.fail("an object")
        return Node(self.value.get(name), f"{self.where}{_step(self.where)}{name}")

    def has(self, *names: str) -> bool:
        """True where this is an object with all of `names`."""
        return isinstance(self.value, dict) and all(name in self.value for name in names)

    def items(self) -> list["Node"]:
        """Return the elements of a list; of nothing, none."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fail("a list")
        return [Node(item, f"{self.where}[{row}]") for row, item in enumerate(self.value)]

    def number(self) -> float | None:
        """Return a finite number; None where there is none."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail("a number")
        if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
            self.fail("a number that can be meant")
        return float(value)

    def seconds(self) -> float | None:
        """Return a number from 0 up; None where there is none."""
        found = self.number()
        if found is not None and found < 0:
            self.fail("a time from 0 up")
        return found

    def count(self) -> int | None:
        """Return a whole number from 0 up; None where there is none."""
        found = self.number()
        if found is None:
            return None
        if not 0 <= found <= LARGEST_COUNT or found != int(found):
            self.fail("a whole number from 0 up")
        return int(found)

    def nanoseconds(self) -> int | None:
        """Return Unix nanoseconds, exactly; None where there are none."""
        value = self.value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail("Unix nanoseconds")
        if not 0 <= value <= LARGEST_NANOSECONDS:
            self.fail("Unix nanoseconds that can be meant")
        return value

    def text(self) -> str | None:
        """Return a text, half surrogate pairs replaced; None where there is none."""
        if self.value is None:
            return None
        if not isinstance(self.value, str):
            self.fail("a text")
        return self.value.encode(errors="replace").decode()

    def needed_number(self) -> float:
        """Return a finite number; UsageError where there is none."""
        found = self.number()
        if found is None:
            raise UsageError(f"{self.where} is missing")
        return found

    def all_seconds(self) -> list[float]:
        """Return a list of numbers from 0 up, none of them missing."""
        found = []
        for item in self.items():
            value = item.seconds()
            if value is None:
                item.fail("a time from 0 up")
            found.append(value)
        return found


def _step(where: str) -> str:
    return " " if where.endswith(":") else "."


def read_bytes(path: Path) -> bytes:
    """Return the content of `path`, unpacked where it is gzip; UsageError where it cannot be."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def read_text(path: Path) -> str:
    """Return the text of `path`, unpacked where it is gzip; UsageError where it is not UTF-8."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8") from error


def read_node(path: Path) -> Node:
    """Return the JSON object in `path`; UsageError names the place where it ends to be JSON."""
    return parse(read_text(path), f"{path}:")


def parse(text: str, where: str) -> Node:
    """Return the JSON object in `text`; see `read_node`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} not JSON ({error})") from error
    node = Node(value, where)
    if not isinstance(value, dict):
        node.fail("a JSON object")
    return node


def read_lines(path: Path) -> Iterator[Node]:
    """Yield the JSON objects of a JSON Lines file, each with its line number."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            yield parse(line, f"{path}, line {number}:")
