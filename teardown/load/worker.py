"""A load worker: `python -m teardown.load.worker HOST:PORT FOLDER WAIT_S PARENT_PID`.

It joins a master, takes its share of a schedule, sends it as the single load process would, keeps a
journal of its own in FOLDER and hands the same lines to the master. It stops when the master says
so, and by itself when the master is not heard any more. Exit codes: 0 the run is over, 10 it is and
another follows, 11 the master was about to leave, 2 and 3 it could not take part, 3 the master is
gone, 130 stopped by a signal.
"""

import locust  # noqa: F401  # isort: skip  # first: it patches what the others use
import logging
import os
import signal
import socket
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import gevent
import gevent.event
import msgspec
from locust.exception import RPCError

from teardown.errors import TargetError, TeardownError, UsageError
from teardown.load.config import LoadConfig
from teardown.load.messages import (
    BEAT_EVERY_S,
    FROM_MASTER,
    LOST_AFTER_S,
    LOST_BEFORE_START_S,
    PROTOCOL,
    Beat,
    Done,
    Failed,
    Hello,
    Message,
    Place,
    Pulse,
    Ready,
    Refused,
    Work,
    from_data,
    name_of,
    place_of,
    to_data,
)
from teardown.load.outbox import Outbox
from teardown.load.priority import run_promptly
from teardown.load.process import EXIT_INTERRUPTED, Sending, die_with_parent, end_now
from teardown.load.run import EXIT_MORE_RUNS, EXIT_NOBODY
from teardown.load.users import load_environment, run_users_of_worker

ANSWER_S: Final = 3.0  # a master that is about to leave accepts a connection and says nothing
STOPPED_THERE: Final = "stopped by a signal on its host"
MASTER_GONE: Final = "the master is gone"
OVER: Final = "the run is over"

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Take part in one run; return the exit code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("locust").setLevel(logging.CRITICAL)
    try:
        place, folder, wait_s, parent_pid = arguments
        die_with_parent(int(parent_pid))
        return Worker(join(place_of(place), float(wait_s)), Path(folder)).work()
    except TeardownError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def join(place: Place, wait_s: float) -> Any:
    """Return a runner that a master has answered; TargetError where none does within `wait_s`."""
    interrupted = [gevent.signal_handler(n, end_now, EXIT_INTERRUPTED) for n in _SIGNALS]
    environment = load_environment()
    try:
        with gevent.Timeout(wait_s):
            return environment.create_worker_runner(place.host, place.port)
    except (gevent.Timeout, ConnectionError, RPCError) as error:
        raise TargetError(
            f"nobody answers at {place} within {wait_s:g} s; "
            "start `teardown measure DIR --listen` there first"
        ) from error
    finally:
        for handler in interrupted:
            handler.cancel()


class Worker:
    """One worker's part in one run. `runner` is joined to a master."""

    def __init__(self, runner: Any, folder: Path) -> None:
        self._runner, self._folder = runner, folder
        self._heard_s = time.monotonic()
        self._beat: Beat | None = None
        self._work: Work | None = None
        self._sending: Sending | None = None
        self._outbox: Outbox | None = None
        self._because: str | None = None  # why we stop before we are done
        # set when a share has come, when the start is known, when the master has closed its
        # journal; all of them when there is nothing to wait for any more
        self._has_work, self._has_start, self._is_over = (gevent.event.Event() for _ in range(3))
        self._is_heard = gevent.event.Event()
        for kind in FROM_MASTER:
            runner.register_message(name_of(kind), self._hearing(kind))

    def work(self) -> int:
        """Take part; return the exit code."""
        for number in _SIGNALS:
            gevent.signal_handler(number, self._stop, STOPPED_THERE)
        watcher = gevent.spawn(self._watch_master)
        self._send(_hello())
        if not self._is_heard.wait(ANSWER_S):
            return EXIT_NOBODY
        self._has_work.wait()
        try:
            if self._because is None and self._work is not None:
                self._take_part(self._work)
        except TeardownError as error:
            self._send(Failed(text=str(error), exit_code=error.exit_code))
            gevent.sleep(BEAT_EVERY_S)  # until it has left
            raise
        finally:
            watcher.kill()
        return self._ending()

    def _take_part(self, work: Work) -> None:
        config = self._unpack(work)
        sending = Sending(
            config,
            run_promptly(),
            journal=self._open_journal,
            users=self._run_users,
            start=self._wait_for_start,
        )
        Path(config.schedule_path).unlink()
        Path(config.prompts_path).unlink()  # the client's text stays in memory alone
        self._sending = sending
        if self._because is not None:
            sending.stop(self._because)
        result = sending.send()
        assert self._outbox is not None
        done = Done(last=self._outbox.finish(), result=result)
        while not self._is_over.is_set():
            self._send(done)
            self._is_over.wait(BEAT_EVERY_S)

    def _ending(self) -> int:
        """Return the exit code, or raise what ended our part before the master closed it."""
        beat, outbox = self._beat, self._outbox
        is_delivered = outbox is not None and outbox.is_delivered
        if outbox is not None and not is_delivered:
            sys.stderr.write(f"not all records reached the master; they are in {self._journal}\n")
        elif self._journal.exists():
            self._journal.unlink()
        if self._because == STOPPED_THERE:
            return EXIT_INTERRUPTED
        if beat is not None and beat.is_over:
            sys.stderr.write("" if self._because == OVER else f"{self._because}\n")
            return EXIT_MORE_RUNS if beat.more_runs else 0
        raise TargetError(self._because or MASTER_GONE)

    @property
    def _journal(self) -> Path:
        return self._folder / f"requests-{os.getpid()}.wal.jsonl"  # one a run

    def _unpack(self, work: Work) -> LoadConfig:
        """Write schedule and prompts where the load reads them; return the configuration."""
        try:
            config = msgspec.convert(work.config, LoadConfig)
            schedule, prompts = zlib.decompress(work.schedule), zlib.decompress(work.prompts)
        except (msgspec.ValidationError, zlib.error) as error:
            raise UsageError(f"the master's share cannot be read: {error}") from error
        schedule_path, prompts_path = self._folder / "schedule.json", self._folder / "prompts.jsonl"
        try:
            schedule_path.write_bytes(schedule)
            prompts_path.write_bytes(prompts)
        except OSError as error:
            raise TargetError(f"{self._folder} cannot be written: {error.strerror}") from error
        return replace(
            config,
            schedule_path=str(schedule_path),
            prompts_path=str(prompts_path),
            journal_path=str(self._journal),
            result_path=str(self._folder / "load.json"),
        )

    def _open_journal(self, path: Path, on_failure: Callable[[OSError], None]) -> Outbox:
        self._outbox = Outbox(path, on_failure, self._send)
        return self._outbox

    def _run_users(self, jobs: list[Callable[[], None]], begin: Callable[[], None]) -> None:
        run_users_of_worker(self._runner, jobs, begin)

    def _wait_for_start(self) -> float:
        """Return the start on our monotonic clock; the users wait for it by themselves."""
        assert self._sending is not None
        self._send(Ready(total=self._sending.total))
        while not self._has_start.wait(BEAT_EVERY_S):
            self._send(Ready(total=self._sending.total))
        start_s = None if self._beat is None else self._beat.start_s
        return time.monotonic() if start_s is None else start_s

    def _stop(self, because: str) -> None:
        """Stop sending; what was measured still goes to the master."""
        if self._because is None:
            self._because = because
            for event in (self._has_work, self._has_start):
                event.set()
            if self._sending is not None:
                self._sending.stop(because)
            elif because == STOPPED_THERE:
                self._send(Failed(text=because, exit_code=TargetError.exit_code))

    def _watch_master(self) -> None:
        while True:
            gevent.sleep(BEAT_EVERY_S)
            is_running = self._beat is not None and self._beat.start_s is not None
            limit_s = LOST_AFTER_S if is_running else LOST_BEFORE_START_S
            if time.monotonic() - self._heard_s > limit_s:
                self._stop(MASTER_GONE)
                self._is_over.set()
                return

    def _hearing(self, kind: type) -> Callable[..., None]:
        """Return a handler of one kind of message, as Locust calls it."""

        def hear(environment: Any, msg: Any, **_: Any) -> None:
            self._heard_s = time.monotonic()
            try:
                message: object = from_data(kind, msg.data)
            except msgspec.ValidationError as error:
                log.error("a message of the master cannot be read: %s", error)
                return
            if isinstance(message, Beat):
                self._hear_beat(message)
            elif isinstance(message, Work):
                self._work = message
                self._has_work.set()
            elif isinstance(message, Refused):
                self._stop(message.text)
            self._is_heard.set()

        return hear

    def _hear_beat(self, beat: Beat) -> None:
        self._beat = beat
        self._send(Pulse(sent_s=beat.sent_s, worker_s=self._heard_s))
        if self._outbox is not None:
            self._outbox.acknowledge(beat.taken)
        if beat.start_s is not None:
            self._has_start.set()
        if beat.halt is not None:
            self._stop(beat.halt)
        if beat.is_over:
            self._is_over.set()
            self._stop(OVER)

    def _send(self, message: Message) -> None:
        try:
            self._runner.send_message(name_of(type(message)), to_data(message))
        except RPCError as error:  # it is sent again, or the master is found to be gone
            log.error("a message to the master was not sent: %s", error)


def _hello() -> Hello:
    return Hello(
        protocol=PROTOCOL,
        version=version("teardown-kit"),
        host=socket.gethostname(),
        pid=os.getpid(),
    )


_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

if __name__ == "__main__":
    end_now(main(sys.argv[1:]))
