"""The master of several load workers: `python -m teardown.load.master CONFIG.json`.

It gathers workers (processes of this host, or whoever joins at `listen`), deals the schedule out,
names one start for all, writes what they send into one journal and leaves one result. It says and
returns what the single load process does (`teardown.load.process`), so that its caller need not
know which of them ran.
"""

import locust  # noqa: F401  # isort: skip  # first: it patches what the others use
import logging
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import gevent
import gevent.queue
import msgspec

from teardown.errors import TargetError, TeardownError, UsageError
from teardown.load.config import LoadConfig, LoadResult, Progress
from teardown.load.crew import Crew
from teardown.load.journal_writer import JournalWriter
from teardown.load.merge import Merge, merged
from teardown.load.messages import (
    BEAT_EVERY_S,
    LOST_AFTER_S,
    LOST_BEFORE_START_S,
    PROTOCOL,
    Beat,
    Done,
    Failed,
    Hello,
    Lines,
    Pulse,
    Ready,
    Refused,
    Work,
)
from teardown.load.process import (
    EXIT_INTERRUPTED,
    PROGRESS_EVERY_S,
    die_with_parent,
    end_now,
    exit_code,
    journal_error,
    opening,
    print_progress,
    stop_on_signals,
    write_whole,
)
from teardown.load.roster import NUM_SAMPLES, Member
from teardown.load.share import deal
from teardown.records import Schedule, read, to_json

JOIN_WAIT_S: Final = 600.0  # for workers of other hosts: somebody has to log in there
START_WAIT_S: Final = 60.0  # for processes of this host, and for anybody to read a share
SAMPLE_EVERY_S: Final = 0.02  # round trips before the start
START_LEAD_S: Final = 0.3  # from naming the start to the start, beyond two round trips
TURN_S: Final = 0.1
SETTLE_S: Final = 0.3  # what a process said before it ended comes first
TAKE_EVERY_S: Final = 0.5
EXIT_BY_CODE: Final[dict[int, type[TeardownError]]] = {2: UsageError, 3: TargetError}

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Lead the load that the one argument, a configuration file, describes; return the code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("locust").setLevel(logging.CRITICAL)
    try:
        if len(arguments) != 1:
            raise UsageError("usage: python -m teardown.load.master CONFIG.json")
        config = read(LoadConfig, Path(arguments[0]))
        die_with_parent(config.parent_pid)
        master = Master(config)
        stop_on_signals(config, master.stop)
        with Crew(config, master.hear) as crew:
            return master.lead(crew)
    except TeardownError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


class Master:
    """One attempt at a run with several workers."""

    def __init__(self, config: LoadConfig) -> None:
        self._config = config
        self._schedule = read(Schedule, Path(config.schedule_path))
        try:
            self._prompts = Path(config.prompts_path).read_bytes()
        except OSError as error:
            raise UsageError(f"{config.prompts_path} cannot be read: {error.strerror}") from error
        self._members: dict[str, Member] = {}
        self._heard: gevent.queue.SimpleQueue = gevent.queue.SimpleQueue()
        self._merge = Merge(config.stop_if)
        self._journal_error: OSError | None = None
        try:
            self._journal = JournalWriter(Path(config.journal_path), self._journal_failed)
        except OSError as error:
            raise TargetError(
                f"{config.journal_path} cannot be written: {error.strerror}"
            ) from error
        self._total = 0
        self._start_s: float | None = None
        self._halt: str | None = None
        self._is_over = False

    def hear(self, node: str, message: object, heard_s: float) -> None:
        """Take a message that came from `node`; it is dealt with in its turn."""
        self._heard.put((node, message, heard_s))

    def stop(self, because: str) -> None:
        """Have everybody stop; the first reason stays."""
        if self._halt is None:
            self._halt = because
            self._beat()

    def lead(self, crew: Crew) -> int:
        """Do the whole run; return the exit code."""
        self._crew = crew
        beating = gevent.spawn(self._beat_for_ever)
        try:
            self._gather()
            self._prepare()
            if self._halt is not None:
                return EXIT_INTERRUPTED
            self._name_start()
            return self._run()
        finally:
            beating.kill()
            self._is_over = True
            self._beat()

    def _gather(self) -> None:
        """Wait until as many workers as were asked for have joined."""
        wanted, is_remote = self._config.workers, self._config.listen is not None
        if is_remote:
            self._say(f"waiting for {wanted} workers to join at {self._crew.place}")
        wait_s = JOIN_WAIT_S if is_remote else START_WAIT_S
        if not self._turn_until(lambda: len(self._members) == wanted, wait_s):
            raise TargetError(
                f"{len(self._members)} of {wanted} workers joined at {self._crew.place} within "
                f"{wait_s:g} s; nothing was sent"
            )

    def _prepare(self) -> None:
        """Give everybody a share, and wait until all can send and all clocks are known."""
        if self._halt is not None:
            return
        prompts = zlib.compress(self._prompts)
        for member, share in zip(
            self._members.values(), deal(self._config, self._schedule), strict=True
        ):
            member.total = len(share.schedule.requests)
            self._total += member.total
            work = Work(
                config=msgspec.to_builtins(share.config),
                schedule=zlib.compress(to_json(share.schedule).encode()),
                prompts=prompts,
            )
            self._crew.send(member.node, work)
        if not self._turn_until(
            lambda: all(
                m.is_ready and m.clock.count >= NUM_SAMPLES for m in self._members.values()
            ),
            START_WAIT_S,
        ):
            late = ", ".join(m.label for m in self._members.values() if not m.is_ready)
            raise TargetError(f"{late} did not make ready within {START_WAIT_S:g} s")

    def _name_start(self) -> None:
        trips = [2 * member.clock.fix().error_s for member in self._members.values()]
        start_s = time.monotonic() + START_LEAD_S + 2 * max(trips)
        self._journal.add(opening(self._config, self._schedule, total=self._total, began_s=start_s))
        self._start_s = start_s
        self._beat()

    def _run(self) -> int:
        """Take what comes until nobody has anything left; close the journal."""
        background = [gevent.spawn(self._take_for_ever), gevent.spawn(self._report_for_ever)]
        self._turn_until(self._is_everybody_finished, None)
        gevent.killall(background)
        result = self._result()
        at_s = self._now_s
        self._journal.add({"event": "close", "at_s": at_s, **msgspec.to_builtins(result)})
        self._journal.close()
        print_progress(self._progress)
        if self._journal_error is not None:
            raise journal_error(self._config, self._journal_error)
        write_whole(Path(self._config.result_path), to_json(result))
        for member in self._members.values():
            member.taken = member.received
        return exit_code(result)

    def _is_everybody_finished(self) -> bool:
        return all(m.is_finished or m.lost is not None for m in self._members.values())

    def _turn_until(self, is_reached: Callable[[], bool], wait_s: float | None) -> bool:
        """Deal with messages and losses until something is reached; False where it is too late.

        Before the start, a stop ends the waiting too (returns True), and so does the loss of a
        worker, by its error.
        """
        until_s = None if wait_s is None else time.monotonic() + wait_s
        while not is_reached():
            if self._start_s is None and self._halt is not None:
                return True
            if until_s is not None and time.monotonic() > until_s:
                return False
            try:
                node, message, heard_s = self._heard.get(timeout=TURN_S)
                self._deal_with(node, message, heard_s)
            except gevent.queue.Empty:
                pass
            self._find_lost()
        return True

    def _deal_with(self, node: str, message: object, heard_s: float) -> None:
        if isinstance(message, Hello):
            self._welcome(node, message, heard_s)
        member = self._members.get(node)
        if member is None:
            return  # somebody who was refused
        member.heard_s = max(member.heard_s, heard_s)
        if isinstance(message, Ready):
            member.is_ready = True
        elif isinstance(message, Pulse):
            member.clock.add(message, heard_s)
        elif isinstance(message, Lines):
            self._take(member, message)
        elif isinstance(message, Done):
            member.done = message
        elif isinstance(message, Failed):
            member.failed = message

    def _welcome(self, node: str, hello: Hello, heard_s: float) -> None:
        if node in self._members:
            return
        refusal = self._refusal(hello)
        if refusal is not None:
            self._crew.send(node, Refused(text=refusal))
            return
        name = str(len(self._members) + 1)
        process = self._crew.process_of(hello.pid)
        member = Member(node=node, name=name, hello=hello, heard_s=heard_s, process=process)
        self._members[node] = member
        self._crew.send(node, self._beat_for(member))
        if self._config.listen is not None:
            joined = f"{len(self._members)} of {self._config.workers}"
            self._say(f"{member.label} has joined ({joined})")

    def _refusal(self, hello: Hello) -> str | None:
        if hello.protocol != PROTOCOL:
            return (
                f"this worker is of teardown {hello.version}, which its master does not "
                "understand; install the same version on both hosts"
            )
        if len(self._members) == self._config.workers:
            return f"the run has its {self._config.workers} workers already"
        return None

    def _take(self, member: Member, batch: Lines) -> None:
        try:
            lines = self._merge.take(member, batch)
        except UsageError as error:
            self._lose(member, str(error))
            return
        for line in lines:
            self._journal.add_encoded(line)
        because = self._merge.stop_because()
        if because is not None:
            self.stop(because)

    def _find_lost(self) -> None:
        is_running = self._start_s is not None
        limit_s = LOST_AFTER_S if is_running else LOST_BEFORE_START_S
        for member in list(self._members.values()):
            if member.lost is not None or (is_running and member.is_finished):
                continue
            silent_s = time.monotonic() - member.heard_s
            ended = None if member.process is None else member.process.poll()
            if member.failed is not None:
                self._lose(member, member.failed.text)
            elif not is_running and member.done is not None:
                self._lose(member, member.done.result.stopped_because or "it has nothing to send")
            elif ended is not None and silent_s > SETTLE_S:
                self._lose(member, self._crew.last_words(member.process))
            elif silent_s > limit_s:
                self._lose(member, f"it was not heard for {limit_s:g} s")
        if len(self._members) < self._config.workers:
            ended_early = self._crew.first_ended()
            if ended_early is not None:
                raise TargetError(f"a worker did not join: {self._crew.last_words(ended_early)}")

    def _lose(self, member: Member, why: str) -> None:
        """Note that nothing more comes from `member`; before the start that ends everything."""
        member.lost = why
        if self._start_s is not None:
            self._crew.send(member.node, self._beat_for(member))
            self._say(f"{member.label} is lost ({why}); the others go on")
            return
        text = why if self._config.listen is None else f"{member.label}: {why}"
        code = member.failed.exit_code if member.failed else TargetError.exit_code
        raise EXIT_BY_CODE.get(code, TeardownError)(text)

    def _beat(self) -> None:
        """Tell everybody where the run stands."""
        for member in list(self._members.values()):
            self._crew.send(member.node, self._beat_for(member))

    def _beat_for(self, member: Member) -> Beat:
        sample = member.clock.at_start
        start_s = None
        if self._start_s is not None and sample is not None:
            start_s = self._start_s + sample.offset_s
        return Beat(
            sent_s=time.monotonic(),
            start_s=start_s,
            taken=member.taken,
            halt=member.lost if self._halt is None else self._halt,
            is_over=self._is_over,
            more_runs=self._config.more_runs,
        )

    def _beat_for_ever(self) -> None:
        while True:
            self._beat()
            is_sampling = any(m.clock.count < NUM_SAMPLES for m in self._members.values())
            gevent.sleep(SAMPLE_EVERY_S if is_sampling else BEAT_EVERY_S)

    def _take_for_ever(self) -> None:
        """Acknowledge what has come, once it is on the disk."""
        while True:
            gevent.sleep(TAKE_EVERY_S)
            received = {member.node: member.received for member in self._members.values()}
            if self._journal.flush():
                for node, number in received.items():
                    self._members[node].taken = number

    def _report_for_ever(self) -> None:
        while True:
            gevent.sleep(PROGRESS_EVERY_S)
            print_progress(self._progress)

    @property
    def _progress(self) -> Progress:
        return Progress(
            done=self._merge.num_done,
            total=self._total,
            in_flight=self._merge.num_in_flight,
            errors=self._merge.num_failed,
            elapsed_s=max(self._now_s - self._config.time_base_s, 0.0),
        )

    @property
    def _now_s(self) -> float:
        """Seconds from the run's start."""
        zero_s = time.monotonic() if self._start_s is None else self._start_s
        return time.monotonic() - zero_s + self._config.time_base_s

    def _say(self, text: str) -> None:
        print_progress(replace(self._progress, says=text))

    def _journal_failed(self, error: OSError) -> None:
        self._journal_error = error
        self.stop("the journal cannot be written")

    def _result(self) -> LoadResult:
        return merged(
            list(self._members.values()),
            self._merge,
            journal_path=self._config.journal_path,
            attempt=self._config.attempt,
            elapsed_s=self._now_s - self._config.time_base_s,
            stopped_because=self._halt,
        )


if __name__ == "__main__":
    end_now(main(sys.argv[1:]))
