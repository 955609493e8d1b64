"""A journal is read back whole, whatever killed the process that wrote it.

JSON Lines. Each attempt begins with `open`, then has `start` when a request is sent and `end` with
its record when it is finished, and ends with `close` unless it was killed. A line that was only
half written is allowed where an attempt ends.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from teardown.errors import UsageError
from teardown.records import Request, Schedule

SCHEMA: Final = "teardown.journal/1"
NO_END: Final = "the load process ended while the request was in flight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One load process: its first line, and its last one or None where it was killed.

    last_s: the latest time that the attempt wrote down, in seconds from the run's start.
    """

    opened: dict[str, Any]
    closed: dict[str, Any] | None
    last_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """All attempts at one run. requests: the newest record of every request that was sent, in the
    order of sending; superseded: records of earlier attempts that a later one replaced.
    """

    attempts: list[Attempt]
    requests: list[Request]
    superseded: list[Request]

    @property
    def is_complete(self) -> bool:
        """True when the newest attempt sent everything it had to."""
        closed = self.attempts[-1].closed if self.attempts else None
        return closed is not None and closed.get("ended") == "complete"

    @property
    def finished(self) -> list[str]:
        """Ids of requests that need not be sent again: all but the aborted ones."""
        return [r.request_id for r in self.requests if r.status != "aborted"]


def read_journal(path: Path) -> Journal:
    """Read the journal at `path`; UsageError where it is not one or a whole line is damaged."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    documents = [_parse(line) for line in lines]
    for number, document in enumerate(documents):
        rest = documents[number + 1 :]
        if document is None and rest and (rest[0] is None or rest[0].get("event") != "open"):
            raise UsageError(f"{path} line {number + 1} is damaged, and more lines follow it")
    reader = _Reader(path)
    for document in documents:
        if document is not None:
            reader.take(document)
    return reader.journal()


def missing(schedule: Schedule, journal: Journal) -> list[str]:
    """Return the ids of scheduled requests that were never sent, in the schedule's order."""
    sent = {request.request_id for request in journal.requests}
    return [item.request_id for item in schedule.requests if item.request_id not in sent]


class _Reader:
    """Gathers lines into attempts and records."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._attempts: list[Attempt] = []
        self._newest: dict[str, Request] = {}
        self._superseded: list[Request] = []

    def take(self, document: dict[str, Any]) -> None:
        event = document.get("event")
        if event == "open":
            if document.get("schema") != SCHEMA:
                raise UsageError(
                    f"{self._path}: schema is {document.get('schema')!r}, this version reads "
                    f"{SCHEMA!r}"
                )
            base_s = float(document.get("time_base_s", 0.0))
            self._attempts.append(Attempt(opened=document, closed=None, last_s=base_s))
            return
        if not self._attempts:
            raise UsageError(f"{self._path} does not begin with an open line: it is no journal")
        try:
            self._take_inner(event, document)
        except (KeyError, msgspec.ValidationError) as error:
            raise UsageError(f"{self._path}: a {event} line does not fit: {error}") from error

    def _take_inner(self, event: object, document: dict[str, Any]) -> None:
        attempt = self._attempts[-1]
        closed, last_s = attempt.closed, attempt.last_s
        if event == "start":
            request = _started(document)
            last_s = max(last_s, request.sent_s or 0.0)
            self._put(request)
        elif event == "end":
            request = msgspec.convert(document["record"], Request)
            last_s = max(last_s, float(document.get("at_s", 0.0)))
            self._put(request)
        elif event == "close":
            closed = document
            last_s = max(last_s, float(document.get("at_s", 0.0)))
        self._attempts[-1] = Attempt(opened=attempt.opened, closed=closed, last_s=last_s)

    def _put(self, request: Request) -> None:
        before = self._newest.get(request.request_id)
        if before is not None and before.attempt != request.attempt:
            self._superseded.append(before)
        self._newest[request.request_id] = request

    def journal(self) -> Journal:
        requests = sorted(self._newest.values(), key=lambda r: (r.sent_s is None, r.sent_s or 0.0))
        return Journal(attempts=self._attempts, requests=requests, superseded=self._superseded)


def _started(document: dict[str, Any]) -> Request:
    """Return the record of a request of which only the sending is known."""
    fields = {key: value for key, value in document.items() if key != "event"}
    reasons = dict.fromkeys(("ttft_s", "ttfo_s", "tpot_s", "e2e_s", "stream_close_s"), NO_END)
    return msgspec.convert(
        {**fields, "status": "aborted", "error": NO_END, "reasons": reasons}, Request
    )


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None
