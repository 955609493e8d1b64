"""The sender keeps the schedule: which request goes when, and what became of it.

Closed loop: one lane per user, in the lane's order, each request `think_s` after the end of the one
before, or at a time of its own where it has one. Open loop: every request at its intended time,
whatever the others do; only a turn waits for the turn before it, and that wait is client wait.
Conversations: a closed lane whose turns carry the model's own answers; a voice call's next turn
counts from when the answer has been heard. A turn that fails ends its session: the rest stays
unsent. All times that leave this module are seconds from the run's start.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import gevent
import gevent.event
import gevent.queue
import msgspec

from teardown.load.client import Aborted, Client
from teardown.load.config import LoadConfig, Progress
from teardown.load.exchange import Exchange
from teardown.load.history import Message, answered, heard_until, next_turn, pieces_of
from teardown.load.journal_writer import JournalWriter
from teardown.load.lags import Lags
from teardown.load.pace import Pace
from teardown.load.prompts import Prompts
from teardown.load.record import Place, RequestParts, to_request
from teardown.load.slots import Slots
from teardown.load.tokenizer import Tokenizer
from teardown.records import Request, Schedule, ScheduledRequest

LEAD_S: Final = 0.05  # an open request is made ready that long before its time

log = logging.getLogger(__name__)


class Sender:
    """Sends what is left of `schedule`, and hands every start and every end to the journal."""

    def __init__(
        self,
        config: LoadConfig,
        schedule: Schedule,
        prompts: Prompts,
        client: Client,
        journal: JournalWriter,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        skip = set(config.skip)
        self._items = [item for item in schedule.requests if item.request_id not in skip]
        prompts.check(self._items)
        self._config, self._prompts = config, prompts
        self._client, self._journal = client, journal
        # in a native thread: counting a long text takes longer than a stream may wait
        threads = gevent.get_hub().threadpool
        self._count = None if tokenizer is None else partial(_count_in, threads, tokenizer)
        self._is_open = schedule.is_open
        self._is_live = schedule.is_live
        self._speech = schedule.speech
        is_capped = not (schedule.is_open or schedule.is_live)
        self._slots = Slots(max(schedule.concurrency, 1) if is_capped else config.max_in_flight)
        self._pace = Pace(None if self._is_open else config.max_requests_per_s)
        self._stopping = gevent.event.Event()
        self._ended: gevent.queue.SimpleQueue = gevent.queue.SimpleQueue()
        self._reader = gevent.spawn(self._read_for_ever)
        self._zero_s = 0.0
        self.stopped_because: str | None = None
        self.counts: Counter[str] = Counter()
        self.num_events = 0
        self.num_reads = 0
        self.num_retries = 0
        self.receive_lags = Lags()
        self.send_lags = Lags()

    @property
    def total(self) -> int:
        """Requests that this attempt has to send."""
        return len(self._items)

    @property
    def now_s(self) -> float:
        """Seconds from the run's start."""
        return time.monotonic() - self._zero_s

    @property
    def progress(self) -> Progress:
        """How far this attempt is."""
        done = self.counts.total()
        return Progress(
            done=done,
            total=self.total,
            in_flight=self._client.num_in_flight,
            errors=done - self.counts["ok"],
            elapsed_s=self.now_s - self._config.time_base_s,
        )

    def jobs(self) -> list[Callable[[], None]]:
        """Return what the users do: a job per closed lane, or one that dispatches an open loop."""
        if self._is_open:
            items = sorted(self._items, key=lambda item: item.intended_s or 0.0)
            return [partial(self._dispatch, items)] if items else []
        lanes: dict[int, list[ScheduledRequest]] = {}
        for item in self._items:
            lanes.setdefault(item.lane, []).append(item)
        step_s = self._config.ramp_s / max(len(lanes), 1)
        run = self._run_sessions if self._is_live else self._run_lane
        return [
            partial(run, items, self._config.ramp_from_s + number * step_s)
            for number, (_, items) in enumerate(sorted(lanes.items()))
        ]

    def begin(self, zero_s: float) -> None:
        """Fix the run's start: `zero_s` on the monotonic clock is `time_base_s` of the run."""
        self._zero_s = zero_s - self._config.time_base_s

    def stop(self, because: str) -> None:
        """Send nothing more and abort what is in flight; the first reason stays."""
        if not self._stopping.is_set():
            self.stopped_because = because
            self._stopping.set()
            self._client.abort_all()

    def _run_lane(self, items: Sequence[ScheduledRequest], delay_s: float) -> None:
        ended_s = self._config.time_base_s + delay_s
        for item in items:
            intended_s = self._await_turn(item, ended_s)
            if intended_s is None:
                return
            self._send_in_turn(item, intended_s, None)
            ended_s = self.now_s

    def _run_sessions(self, items: Sequence[ScheduledRequest], delay_s: float) -> None:
        """Hold one conversation after the other, in the order in which they begin."""
        sessions: dict[str, list[ScheduledRequest]] = {}
        for item in items:
            sessions.setdefault(item.session, []).append(item)
        ended_s = self._config.time_base_s + delay_s
        for turns in sessions.values():
            ended_s = self._converse(turns, ended_s)

    def _converse(self, turns: Sequence[ScheduledRequest], ended_s: float) -> float:
        """Send the turns of one session; return when its last answer ended, or was heard.

        A turn that fails, or has no answer to go on with, ends it.
        """
        history: list[Message] = []
        for item in turns:
            intended_s = self._await_turn(item, ended_s)
            if intended_s is None:
                break
            history = next_turn(history, self._prompts.messages(item))
            path, body = self._prompts.outgoing(item, history)
            try:
                with self._slots:
                    exchange = self._send(item, path, body, intended_s, is_answer_needed=True)
            except Aborted:
                break  # thrown just after the request had ended by itself
            ended_s = self.now_s
            pieces = pieces_of(exchange) if exchange is not None else []
            if not pieces:
                break
            history = answered(history, pieces)
            heard_s = heard_until(pieces, self._speech) if self._speech else None
            ended_s = ended_s if heard_s is None else heard_s - self._zero_s
        return ended_s

    def _await_turn(self, item: ScheduledRequest, ended_s: float) -> float | None:
        """Wait until `item` may go; return that moment, None when the run is stopping."""
        wanted_s = self._intended_s(item, ended_s)
        if not self._wait_until(wanted_s):
            return None
        intended_s = self._pace.take(wanted_s)
        return intended_s if self._wait_until(intended_s) else None

    def _intended_s(self, item: ScheduledRequest, ended_s: float) -> float:
        """Return a time of its own where the schedule has one, else `think_s` after `ended_s`."""
        if item.intended_s is None:
            return ended_s + item.think_s
        return max(item.intended_s, self._config.time_base_s)

    def _dispatch(self, items: Sequence[ScheduledRequest]) -> None:
        """Start every request at its time; a resumed run sends at once what is overdue."""
        base_s = self._config.time_base_s
        last_of_session: dict[str, gevent.Greenlet] = {}
        started = []
        for item in items:
            intended_s = max(item.intended_s or 0.0, base_s)
            if not self._wait_until(intended_s - LEAD_S):
                break
            before = last_of_session.get(item.session)
            greenlet = gevent.spawn(self._send_in_turn, item, intended_s, before)
            last_of_session[item.session] = greenlet
            started.append(greenlet)
        gevent.joinall(started)

    def _send_in_turn(
        self, item: ScheduledRequest, intended_s: float, before: gevent.Greenlet | None
    ) -> None:
        """Send `item` when its time, its turn and a free slot have come."""
        try:
            path, body = self._prompts.outgoing(item)
            if not self._wait_until(intended_s):
                return
            if before is not None:
                before.join()
            with self._slots:
                self._send(item, path, body, intended_s)
        except Aborted:
            return  # thrown just after the request had ended by itself

    def _send(
        self,
        item: ScheduledRequest,
        path: str,
        body: bytes,
        intended_s: float,
        *,
        is_answer_needed: bool = False,
    ) -> Exchange | None:
        """Send and wait; None when the run is stopping, or a needed answer is not complete."""
        if self._stopping.is_set():
            return None
        place = Place(
            request_id=item.request_id,
            attempt=self._config.attempt,
            worker=self._config.worker,
            session=item.session,
            turn=item.turn,
            salt=self._config.salt,
            intended_s=intended_s,
            zero_s=self._zero_s,
        )
        try:
            exchange = self._client.post(path, body, lambda sent_s: self._started(place, sent_s))
        except Exception as error:  # a fault of ours is a failed request, not a lost one
            log.exception("request %s failed in the client", item.request_id)
            exchange = Exchange(ending="failed", detail=f"{type(error).__name__}: {error}")
        # a conversation cannot wait for an idle moment: its next turn needs the answer
        parts = self._read(place, exchange, _let_others_run) if is_answer_needed else None
        self._ended.put((place, exchange, parts))
        return exchange if parts is None or not parts.request.is_failed else None

    def drain(self) -> None:
        """Return once every exchange that has ended is in the journal."""
        self._ended.put(None)
        self._reader.join()

    def _read_for_ever(self) -> None:
        """Turn exchanges into records while nothing else is to be done.

        Parsing on the way would hold up the reads of every other stream by milliseconds.
        """
        for place, exchange, parts in iter(self._ended.get, None):
            gevent.idle()
            self._finish(exchange, parts or self._read(place, exchange, gevent.idle))

    def _read(self, place: Place, exchange: Exchange, pause: Callable[[], None]) -> RequestParts:
        """Return the record of an exchange; one that cannot be read is a failed request."""
        try:
            return to_request(place, exchange, pause, self._count)
        except Exception as error:  # no answer may break the run
            log.exception("the answer to request %s cannot be read", place.request_id)
            detail = f"{type(error).__name__}: {error}"
            failed = Exchange(sent_s=exchange.sent_s, ending="failed", detail=detail)
            return to_request(place, failed)

    def _started(self, place: Place, sent_s: float) -> None:
        line = place._asdict()
        zero_s = line.pop("zero_s")
        self._journal.add({"event": "start", **line, "sent_s": sent_s - zero_s})

    def _finish(self, exchange: Exchange, parts: RequestParts) -> None:
        request, num_events = parts
        record = msgspec.to_builtins(request)
        self._journal.add({"event": "end", "at_s": self.now_s, "record": record})
        self.num_events += num_events
        self.num_reads += exchange.num_reads
        self.num_retries += exchange.retries
        self.receive_lags.extend(exchange.lags_s)
        if request.client_wait_s is not None:
            self.send_lags.extend([max(request.client_wait_s, 0.0)])
        self.counts[request.status] += 1
        self._stop_if_failing(request)

    def _stop_if_failing(self, request: Request) -> None:
        if self._config.stop_if is None or not request.is_failed:
            return
        done = self.counts.total()
        because = self._config.stop_if.because(done - self.counts["ok"], done)
        if because is not None:
            self.stop(because)

    def _wait_until(self, when_s: float) -> bool:
        """Wait for a time of the run; False when the run is stopping."""
        left_s = when_s - self.now_s
        if left_s > 0:
            self._stopping.wait(left_s)
        return not self._stopping.is_set()


def _count_in(threads: Any, tokenizer: Tokenizer, text: str) -> int:
    count: int = threads.apply(tokenizer.count, (text,))
    return count


def _let_others_run() -> None:
    gevent.sleep(0)
