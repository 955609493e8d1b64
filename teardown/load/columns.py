"""The requests of a run as columns: a million of them are summed up within seconds and gigabytes.

One value a request, last attempts only (an interrupted run sends some requests again). A missing
number is NaN. Stamps of chunks, two hundred times as many, are never held at once: they come in
batches, from the table on disk or from the records. All times are seconds, as in `Request`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet

from teardown.load.table import open_table, reading
from teardown.records import FAILED, Request

Numbers: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Offsets: TypeAlias = npt.NDArray[np.int64]

NUMBERS: Final = (
    "intended_s",
    "sent_s",
    "ttft_s",
    "ttfo_s",
    "tpot_s",
    "e2e_s",
    "stream_close_s",
    "max_gap_s",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
)
BATCH_ROWS: Final = 8192  # 13 MB of stamps at 200 chunks a request


class ChunkBatch(NamedTuple):
    """Stamps of the requests `rows` of the columns: those of the i-th are
    `stamps_s[offsets[i]:offsets[i + 1]]`.
    """

    rows: slice
    offsets: Offsets
    stamps_s: Numbers

    @property
    def lengths(self) -> Offsets:
        """Chunks of each request."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunColumns:
    """One entry a request; `numbers` by field name of `Request`; `chunks` starts a new pass.

    `last_chunk_s`: the last stamp of every request that has neither an E2E nor a stream close.
    `session`: a number for each session. A turn that was never sent is placed where its session
    ended: it had no time of its own, and would otherwise be a miss in no window.
    """

    status: npt.NDArray[np.object_]
    session: Offsets
    numbers: dict[str, Numbers]
    last_chunk_s: Numbers
    chunks: Callable[[], Iterator[ChunkBatch]]

    @property
    def is_failed(self) -> Flags:
        """True for everything but a complete answer."""
        return np.isin(self.status.astype(str), sorted(FAILED))

    @property
    def begin_s(self) -> Numbers:
        """Intended time, or the send where the schedule named none."""
        intended = self.numbers["intended_s"]
        return np.where(np.isnan(intended), self.numbers["sent_s"], intended)

    @property
    def end_s(self) -> Numbers:
        """Last content or end of the body; the last sign of life of a request that has neither; the
        send itself where nothing came.
        """
        sent = self.numbers["sent_s"]
        sent = np.where(np.isnan(sent), np.nan_to_num(self.numbers["intended_s"]), sent)
        e2e = np.nan_to_num(self.numbers["e2e_s"])
        end = sent + np.where(e2e != 0, e2e, np.nan_to_num(self.numbers["stream_close_s"]))
        return np.where(np.isnan(self.last_chunk_s), end, self.last_chunk_s)

    @property
    def client_wait_s(self) -> Numbers:
        """Sent less intended."""
        return self.numbers["sent_s"] - self.numbers["intended_s"]


def columns_of(requests: Sequence[Request]) -> RunColumns:
    """Return the columns of records; `requests` holds every attempt."""
    kept = _last(
        np.array([r.request_id for r in requests], dtype=object),
        np.array([r.attempt for r in requests]),
    )
    final = [requests[row] for row in kept]
    offsets = np.cumsum([0, *(len(r.chunk_s) for r in final)])

    def chunks() -> Iterator[ChunkBatch]:
        stamps = np.fromiter((t for r in final for t in r.chunk_s), np.float64, offsets[-1])
        yield ChunkBatch(slice(0, len(final)), offsets, stamps)

    numbers = {
        name: np.array([getattr(r, name) for r in final], dtype=np.float64) for name in NUMBERS
    }
    status = np.array([r.status for r in final], dtype=object)
    session = np.array([r.session for r in final], dtype=object)
    return _columns(status, session, numbers, chunks)


def read_columns(path: Path) -> RunColumns:
    """Return the columns of the table at `path`; UsageError where it is no table of requests."""
    with reading(path):
        table = open_table(path).read(["request_id", "attempt", "status", "session", *NUMBERS])
    kept = _last(table["request_id"].to_numpy(), table["attempt"].to_numpy())
    is_last = np.zeros(table.num_rows, dtype=bool)
    is_last[kept] = True
    numbers = {name: table[name].cast(pyarrow.float64()).to_numpy()[kept] for name in NUMBERS}
    status, session = (table[name].to_numpy()[kept] for name in ("status", "session"))
    return _columns(status, session, numbers, lambda: _read_chunks(path, is_last))


def _columns(
    status: npt.NDArray[np.object_],
    session: npt.NDArray[np.object_],
    numbers: dict[str, Numbers],
    chunks: Callable[[], Iterator[ChunkBatch]],
) -> RunColumns:
    """Add the last stamps; where every request has an end of its own, no pass is needed."""
    last = np.full(len(status), np.nan)
    has_no_end = np.isnan(numbers["e2e_s"]) & np.isnan(numbers["stream_close_s"])
    for batch in chunks() if has_no_end.any() else ():
        has_last = has_no_end[batch.rows] & (batch.lengths > 0)
        last[batch.rows][has_last] = batch.stamps_s[batch.offsets[1:][has_last] - 1]
    code = pyarrow.array(session, pyarrow.string()).fill_null("\0").dictionary_encode()
    run = RunColumns(
        status=status,
        session=code.indices.to_numpy().astype(np.int64),
        numbers=numbers,
        last_chunk_s=last,
        chunks=chunks,
    )
    is_lost = np.isnan(run.begin_s)
    if is_lost.any():
        ended = np.zeros(len(code.dictionary))
        is_sent = ~np.isnan(numbers["sent_s"])
        np.maximum.at(ended, run.session[is_sent], run.end_s[is_sent])
        numbers["intended_s"] = np.where(is_lost, ended[run.session], numbers["intended_s"])
    return run


def _read_chunks(path: Path, is_last: Flags) -> Iterator[ChunkBatch]:
    first_raw = first = 0
    with reading(path):
        for batch in open_table(path).iter_batches(BATCH_ROWS, columns=["chunk_s"]):
            stamps: Any = batch.column(0)
            keep = is_last[first_raw : first_raw + len(stamps)]
            first_raw += len(stamps)
            if not keep.all():
                stamps = stamps.filter(pyarrow.array(keep))
            offsets = stamps.offsets.to_numpy().astype(np.int64)
            values = stamps.values.to_numpy()[offsets[0] : offsets[-1]]
            yield ChunkBatch(slice(first, first + len(stamps)), offsets - offsets[0], values)
            first += len(stamps)


def _last(ids: npt.NDArray[np.object_], attempts: npt.NDArray[np.int64]) -> Offsets:
    """Return the rows that hold the last attempt at each request, ascending."""
    code = pyarrow.array(ids, pyarrow.string()).dictionary_encode().indices.to_numpy()
    order = np.lexsort((np.arange(len(ids)), attempts, code))
    is_end = np.append(np.diff(code[order]) != 0, True) if len(ids) else np.array([], bool)
    return np.sort(order[is_end])
