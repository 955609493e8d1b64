"""What several workers sent becomes one journal and one result; every request counts once."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec

from teardown.errors import UsageError
from teardown.load.config import Ended, LoadResult, StopIf, WorkerResult
from teardown.load.messages import Lines
from teardown.load.roster import Member
from teardown.records import Spread

# Promptest last: a run is as prompt as its least prompt worker.
PRIORITIES: Final = ("default", "short slice", "real-time")
# Beyond it the order of events on two hosts is worth a word (DEFINITIONS.md, clock: warn at 1 ms).
CLOCK_ERROR_S: Final = 0.001


class _Record(msgspec.Struct):
    request_id: str
    status: str


class _Line(msgspec.Struct):
    event: str
    request_id: str | None = None
    record: _Record | None = None


class Merge:
    """Takes batches in the order of their numbers; counts requests by worker and status."""

    def __init__(self, stop_if: StopIf | None) -> None:
        self._stop_if = stop_if
        self._decoder = msgspec.json.Decoder(_Line)
        self._started: set[str] = set()
        self._ended: set[str] = set()
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.num_dropped = 0

    @property
    def num_done(self) -> int:
        """Requests that have ended."""
        return len(self._ended)

    @property
    def num_failed(self) -> int:
        """Requests that have ended otherwise than well."""
        return self.num_done - sum(counts["ok"] for counts in self.counts.values())

    @property
    def num_in_flight(self) -> int:
        """Requests that were sent and have not ended, as far as it is known here."""
        return len(self._started - self._ended)

    def take(self, member: Member, batch: Lines) -> list[bytes]:
        """Return the lines of `batch` that are new; none where it came before, or too early.

        A batch that is too early is sent again after the one that is missing. UsageError where a
        line is no line of a journal.
        """
        if batch.number != member.received + 1:
            self.num_dropped += 1
            return []
        lines = [line for line in batch.lines if self._is_new(member, line)]
        member.received = batch.number
        return lines

    def stop_because(self) -> str | None:
        """Return why the run stops, by the failures of all workers together."""
        if self._stop_if is None:
            return None
        return self._stop_if.because(self.num_failed, self.num_done)

    def _is_new(self, member: Member, encoded: bytes) -> bool:
        try:
            line = self._decoder.decode(encoded)
        except msgspec.DecodeError as error:
            raise UsageError(f"{member.label} sent a line that cannot be read: {error}") from error
        if line.record is not None:
            if line.record.request_id in self._ended:
                return False
            self._ended.add(line.record.request_id)
            self.counts[member.name][line.record.status] += 1
        elif line.request_id is not None:
            if line.request_id in self._started:
                return False
            self._started.add(line.request_id)
        return True


def merged(
    members: Sequence[Member],
    merge: Merge,
    *,
    journal_path: str,
    attempt: int,
    elapsed_s: float,
    stopped_because: str | None,
) -> LoadResult:
    """Return the result of the whole run; `stopped_because` is why it was stopped for all."""
    results = [member.done.result for member in members if member.done is not None]
    failures = [text for m in members if (text := _shortfall(m, stopped_because)) is not None]
    because = stopped_because or (failures[0] if failures else None)
    ended: Ended = "complete" if because is None else "interrupted"
    return LoadResult(
        journal_path=journal_path,
        ended=ended,
        stopped_because=because,
        attempt=attempt,
        counts=dict(sorted(sum(merge.counts.values(), Counter()).items())),
        total=sum(member.total for member in members),
        elapsed_s=elapsed_s,
        peak_in_flight=sum(result.peak_in_flight for result in results),
        connections=sum(result.connections for result in results),
        retries=sum(result.retries for result in results),
        reads=sum(result.reads for result in results),
        events=sum(result.events for result in results),
        kernel_stamps=bool(results) and all(r.kernel_stamps for r in results if r.reads),
        receive_lag=worst([result.receive_lag for result in results]),
        send_lag=worst([result.send_lag for result in results]),
        clock_offset_moved_s=max((r.clock_offset_moved_s for r in results), default=0.0),
        clock_events=sum(result.clock_events for result in results),
        cpu_s=sum(result.cpu_s for result in results),
        priority=min((r.priority for r in results), key=_promptness, default=PRIORITIES[0]),
        workers=[_part(member, merge) for member in members],
        notes=[*failures, *_clock_notes(members)],
    )


def worst(spreads: Sequence[Spread | None]) -> Spread | None:
    """Return the largest of each value: percentiles of a pool cannot be had from percentiles."""
    known = [spread for spread in spreads if spread is not None]
    if not known:
        return None
    return Spread(
        n=sum(spread.n for spread in known),
        p50=max(spread.p50 for spread in known),
        p99=max(spread.p99 for spread in known),
        max=max(spread.max for spread in known),
    )


def _shortfall(member: Member, stopped_because: str | None) -> str | None:
    """Return the sentence for a worker that did less than the run as a whole."""
    why = member.lost
    if why is None and member.done is not None:
        why = member.done.result.stopped_because
    if why is None or (member.lost is None and why == stopped_because):
        return None
    return f"{member.label} did not finish its {member.total} requests: {why}"


def _clock_notes(members: Sequence[Member]) -> list[str]:
    notes = []
    for member in members:
        sample = member.clock.at_start
        if sample is not None and sample.error_s > CLOCK_ERROR_S:
            notes.append(
                f"times of {member.label} may be off by {sample.error_s * 1e3:.1f} ms against the "
                "others: that is half of the quickest round trip to it"
            )
    return notes


def _part(member: Member, merge: Merge) -> WorkerResult:
    sample, done = member.clock.at_start, member.done
    return WorkerResult(
        worker=member.name,
        host=member.hello.host,
        total=member.total,
        counts=dict(sorted(merge.counts[member.name].items())),
        lost=member.lost,
        clock_offset_s=sample.offset_s if sample else 0.0,
        clock_error_s=sample.error_s if sample else 0.0,
        clock_drift_s=member.clock.drift_s,
        cpu_s=done.result.cpu_s if done else None,
        receive_lag=done.result.receive_lag if done else None,
        priority=done.result.priority if done else None,
    )


def _promptness(priority: str) -> int:
    return PRIORITIES.index(priority) if priority in PRIORITIES else 0
