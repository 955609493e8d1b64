"""Requests as a Parquet table: one row each, and the same records when read back.

The table is written and read in groups of rows, so that neither needs the memory of a whole run.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow
import pyarrow.parquet

from teardown.errors import UsageError
from teardown.records import Request

SCHEMA_NAME: Final = "teardown.requests/1"
SCHEMA_KEY: Final = b"schema"
TEXT: Final = pyarrow.string()
REAL: Final = pyarrow.float64()
WHOLE: Final = pyarrow.int64()
TIMES: Final = pyarrow.list_(REAL)
# `server` and `reasons` are JSON text: few rows look at them, and their keys differ by engine.
COLUMNS: Final[dict[str, Any]] = {
    "request_id": TEXT,
    "attempt": WHOLE,
    "status": TEXT,
    "finish_reason": TEXT,
    "http_status": WHOLE,
    "replica": TEXT,
    "worker": TEXT,
    "session": TEXT,
    "turn": WHOLE,
    "salt": TEXT,
    "intended_s": REAL,
    "connect_s": REAL,
    "sent_s": REAL,
    "ttft_s": REAL,
    "ttfo_s": REAL,
    "tpot_s": REAL,
    "e2e_s": REAL,
    "stream_close_s": REAL,
    "max_gap_s": REAL,
    "prompt_tokens": WHOLE,
    "output_tokens": WHOLE,
    "first_chunk_tokens": WHOLE,
    "reasoning_tokens": WHOLE,
    "cached_tokens": WHOLE,
    "output_tokens_source": TEXT,
    "text_sha256": TEXT,
    "chunk_s": TIMES,
    "stamp_width_s": TIMES,
    "receive_lag_s": REAL,
    "error": TEXT,
    "server": TEXT,
    "reasons": TEXT,
}
JSON_COLUMNS: Final = ("server", "reasons")


SCHEMA: Final = pyarrow.schema(list(COLUMNS.items()), metadata={SCHEMA_KEY: SCHEMA_NAME.encode()})
GROUP_ROWS: Final = 8192
# times do not repeat: their bytes compress by place (BYTE_STREAM_SPLIT), text by dictionary
DICTIONARY: Final = [name for name, kind in COLUMNS.items() if kind == TEXT]
SPLIT: Final = [
    name if kind == REAL else f"{name}.list.element"
    for name, kind in COLUMNS.items()
    if kind in (REAL, TIMES)
]


def write_requests(path: Path, requests: Iterable[Request]) -> None:
    """Write `requests` to `path`, whole or not at all."""
    rest = iter(requests)
    with writing_table(path) as write:
        while group := list(islice(rest, GROUP_ROWS)):
            write(pyarrow.Table.from_pylist([_to_row(request) for request in group], SCHEMA))


@contextlib.contextmanager
def writing_table(path: Path) -> Iterator[Callable[[pyarrow.Table], None]]:
    """Give a function that appends tables of `SCHEMA`, each a group of rows.

    `path` appears when the block has ended without an error.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            with pyarrow.parquet.ParquetWriter(
                file,
                SCHEMA,
                compression="zstd",
                use_dictionary=DICTIONARY,
                use_byte_stream_split=SPLIT,
            ) as writer:
                yield writer.write_table
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_requests(path: Path) -> list[Request]:
    """Read the table at `path`; UsageError where it is missing or not a table of requests."""
    with reading(path):
        return [
            _from_row(row)
            for batch in open_table(path).iter_batches(GROUP_ROWS)
            for row in batch.to_pylist()
        ]


def open_table(path: Path) -> Any:
    """Open the table at `path`; UsageError where its schema is not ours."""
    table = pyarrow.parquet.ParquetFile(path)
    found = (table.schema_arrow.metadata or {}).get(SCHEMA_KEY, b"").decode()
    if found != SCHEMA_NAME:
        raise UsageError(f"{path}: schema is {found!r}, this version reads {SCHEMA_NAME!r}")
    return table


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while `path` is read into one sentence."""
    try:
        yield
    except (OSError, KeyError, pyarrow.ArrowException) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from error


def _to_row(request: Request) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(request)
    for name in JSON_COLUMNS:
        if row[name] is not None:
            row[name] = json.dumps(row[name], ensure_ascii=False)
    return row


def _from_row(row: dict[str, Any]) -> Request:
    for name in JSON_COLUMNS:
        if row.get(name) is not None:
            row[name] = json.loads(row[name])
    return msgspec.convert({key: row[key] for key in COLUMNS if key in row}, Request)
