"""Records to JSON documents and back.

Every document starts with `"schema": "teardown.<record>/<n>"`. A record class declares it by
`SCHEMA`, and by `OLDER` the forms that it can still read, because only fields were added since.
Unknown keys of an older or newer minor form are ignored; another major form is an error.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from teardown.errors import UsageError


class Record(Protocol):
    """A frozen dataclass that lands on disk under a schema of its own."""

    SCHEMA: ClassVar[str]


R = TypeVar("R", bound=Record)


def to_document(record: Record) -> dict[str, Any]:
    """Return the JSON-ready document of `record`, its schema first."""
    return {"schema": record.SCHEMA, **msgspec.to_builtins(record)}


def to_json(record: Record) -> str:
    """Return `record` as indented JSON with a final newline; same record, same bytes."""
    return json.dumps(to_document(record), indent=1, ensure_ascii=False) + "\n"


def from_document(cls: type[R], document: Mapping[str, Any], source: str = "document") -> R:
    """Return the record of `document`; UsageError names `source` when it does not fit."""
    schema = document.get("schema")
    if schema != cls.SCHEMA and schema not in getattr(cls, "OLDER", ()):
        raise UsageError(f"{source}: schema is {schema!r}, this version reads {cls.SCHEMA!r}")
    try:
        return msgspec.convert({k: v for k, v in document.items() if k != "schema"}, cls)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {error}") from error


def read(cls: type[R], path: Path) -> R:
    """Read the record at `path`; UsageError when it is missing, not JSON or of another kind."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} is not a JSON object")
    return from_document(cls, document, str(path))
