"""Fields of a JSON document are read as what the protocol says they are, or named as malformed."""

from typing import Any, Final

import orjson

LARGEST_COUNT: Final = 2**53  # beyond it a number is damage


class Malformed(Exception):
    """A field is not what the protocol says; the text names it."""


def parse(data: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object in `data`; None where it is anything else."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def text_of(parent: dict[str, Any], key: str) -> str:
    """Return the text under `key`; "" where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{key} is not text")
    return value


def object_of(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object under `key`; an empty one where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"{key} is not an object")
    return value


def items_of(parent: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the list of objects under `key`; an empty one where it is absent or null."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Malformed(f"{key} is not a list of objects")
    return value


def count_of(parent: dict[str, Any], key: str) -> int | None:
    """Return the count under `key`; None where there is none that can be one."""
    value = parent.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= LARGEST_COUNT else None


def seconds_of(parent: dict[str, Any], key: str) -> float | None:
    """Return the milliseconds under `key` as seconds; None where there is no number."""
    value = parent.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / 1000
