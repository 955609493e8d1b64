"""Delete every text that an engagement holds, and prove that none is left.

Deleted: the prompts files inside the folder, the reference answers, the engines' logs, journals of
unfinished runs, and the key of the block hashes. What stays is numbers, lengths, keyed hashes and
configuration. Then every file that is left is opened (also gzip and Parquet) and searched for
pieces of the deleted texts. Files are unlinked: what the disk or a backup still holds is not ours.
"""

import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from teardown.engagement import Engagement, sha256_file, write_atomic
from teardown.errors import TeardownError, UsageError
from teardown.records import read, to_json
from teardown.settings import Settings
from teardown.workload.finder import PIECE_CHARS, TextFinder
from teardown.workload.prompts import read_prompts
from teardown.workload.shapes import KEY_FILE

# Below the folder, everything that may hold text by what it is for.
TEXT_FILES: Final = (
    "oracle/*.jsonl",
    "target/*.log",
    "runs/*/engine.log.gz",
    "runs/*/requests.wal.jsonl",
    f"workload/{KEY_FILE}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """One file that is gone: what it was, so that a copy elsewhere can be recognised."""

    path: str
    sha256: str
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was deleted and how its absence was proven; `deleted` adds up over several calls.

    num_pieces: different pieces of `PIECE_CHARS` characters of the deleted texts that were looked
    for. outside: prompts files that the engagement names and that lie outside its folder.
    """

    SCHEMA: ClassVar[str] = "teardown.forgotten/1"

    forgotten_unix_s: float
    deleted: list[Deleted]
    num_pieces: int
    num_files_searched: int
    num_bytes_searched: int
    outside: list[str] = field(default_factory=list)


def forget_texts(engagement: Engagement, settings: Settings) -> Forgotten:
    """Delete, search, record; TeardownError where a text is still found, naming the files."""
    inside, outside = _prompts_files(engagement, settings)
    finder = TextFinder(_texts(engagement, [*inside, *outside]))
    found = sorted({p for pattern in TEXT_FILES for p in engagement.folder.glob(pattern)})
    deleted = [_delete(engagement, path) for path in [*inside, *found]]
    before = read_forgotten(engagement)
    left, num_files, num_bytes = [], 0, 0
    for path in sorted(p for p in engagement.folder.rglob("*") if p.is_file()):
        num_files += 1
        for text in _contents(path):
            num_bytes += len(text)
            if finder.finds(text):
                left.append(str(path.relative_to(engagement.folder)))
                break
    record = Forgotten(
        forgotten_unix_s=time.time(),
        deleted=[*(before.deleted if before else []), *deleted],
        num_pieces=finder.num_pieces if finder.num_pieces or not before else before.num_pieces,
        num_files_searched=num_files,
        num_bytes_searched=num_bytes,
        outside=[str(path) for path in outside],
    )
    write_atomic(engagement.forgotten_path, to_json(record))
    if left:
        raise TeardownError(
            f"{len(deleted)} files were deleted, but text is still found in {', '.join(left)}; "
            "delete those by hand, and please report this: no record should hold text"
        )
    return record


def read_forgotten(engagement: Engagement) -> Forgotten | None:
    """Return the record of an engagement whose texts were deleted; None for any other."""
    path = engagement.forgotten_path
    return read(Forgotten, path) if path.exists() else None


def forgotten_text(record: Forgotten, num_new: int) -> str:
    """Return what was done, for a terminal."""
    lines = [f"deleted {item.path} ({item.num_bytes:,} bytes)" for item in record.deleted]
    shown = lines[len(lines) - num_new :] if num_new else ["no file with text is left to delete"]
    shown.append(
        f"searched {record.num_files_searched} files, {record.num_bytes_searched:,} bytes, for "
        f"{record.num_pieces:,} pieces of {PIECE_CHARS} characters of those texts: none is left"
    )
    shown += [f"not ours to delete, outside the folder: {path}" for path in record.outside]
    shown.append("files were unlinked; what the disk's free space or a backup holds is not touched")
    return "\n".join(shown)


def _prompts_files(engagement: Engagement, settings: Settings) -> tuple[list[Path], list[Path]]:
    """Return the prompts files that exist, inside the folder and outside it."""
    home = engagement.folder.resolve()
    named = {engagement.prompts_path(load.prompts) for load in settings.workloads if load.prompts}
    files = sorted(path for path in named if path.is_file())
    inside = [path for path in files if path.resolve().is_relative_to(home)]
    return inside, [path for path in files if path not in inside]


def _texts(engagement: Engagement, prompts_files: list[Path]) -> Iterator[str]:
    """Yield every text that the engagement holds: prompts and reference answers."""
    for path in prompts_files:
        try:
            yield from (prompt.text for prompt in read_prompts(path))
        except UsageError:
            yield path.read_text(encoding="utf-8", errors="replace")
    for path in engagement.oracle_dir.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            try:
                document = msgspec.json.decode(line)
            except msgspec.DecodeError:
                document = None
            text = document.get("text") if isinstance(document, dict) else None
            yield text if isinstance(text, str) else line.decode("utf-8", errors="replace")


def _delete(engagement: Engagement, path: Path) -> Deleted:
    gone = Deleted(
        path=str(path.relative_to(engagement.folder)),
        sha256=sha256_file(path),
        num_bytes=path.stat().st_size,
    )
    path.unlink()
    return gone


def _contents(path: Path) -> Iterator[str]:
    """Yield what a file says as text: plain, unpacked, or the text columns of a table."""
    if path.suffix == ".parquet":
        import pyarrow.parquet
        import pyarrow.types

        table = pyarrow.parquet.read_table(path)
        for column in table.itercolumns():
            if pyarrow.types.is_string(column.type):
                yield "\n".join(str(value) for value in column.to_pylist() if value is not None)
        return
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    yield data.decode("utf-8", errors="replace")
