"""The load process: `python -m teardown.load.process CONFIG.json`.

It sends one schedule, writes the journal, prints one line of progress a second on standard output
and leaves a result document. Exit codes: 0 complete, 2 configuration, 3 the journal cannot be
written or the endpoint's name is unknown, 4 stopped by `stop_if`, 130 stopped by SIGTERM or SIGINT.
"""

import locust  # isort: skip  # first, because it patches what the others use
import contextlib
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gevent
import msgspec

from teardown.errors import TargetError, TeardownError, UsageError
from teardown.load.client import Client, Endpoint
from teardown.load.config import LoadConfig, LoadResult, Progress, stop_path
from teardown.load.headers import headers_of
from teardown.load.journal import SCHEMA
from teardown.load.journal_writer import JournalWriter
from teardown.load.lags import Lags
from teardown.load.priority import Priority, run_promptly
from teardown.load.prompts import Prompts
from teardown.load.record import percentile
from teardown.load.sender import Sender
from teardown.load.tokenizer import open_tokenizer
from teardown.load.users import run_users
from teardown.records import Schedule, Spread, read, to_json

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
PROGRESS_EVERY_S: Final = 1.0
# gevent runs ready greenlets for so long before it looks at the sockets again (5 ms by default).
POLL_EVERY_S: Final = 0.0005
STOPPED_BY_USER: Final = "stopped by the user"
EXIT_STOPPED: Final = 4
EXIT_INTERRUPTED: Final = 130


def main(arguments: list[str]) -> int:
    """Run the load that the one argument, a configuration file, describes; return the exit code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("locust").setLevel(logging.ERROR)
    try:
        if len(arguments) != 1:
            raise UsageError("usage: python -m teardown.load.process CONFIG.json")
        config = read(LoadConfig, Path(arguments[0]))
        die_with_parent(config.parent_pid)
        return Sending(config, run_promptly()).run()
    except TeardownError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def die_with_parent(parent_pid: int | None) -> None:
    """Ask the kernel to kill this process when its parent ends; TargetError if it already has."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:
        raise TargetError("the process that asked for the load has ended")


class Sending:
    """One attempt: everything that is opened for it, and how it ended.

    A worker of several differs in its journal, in the runner of its users and in who names the
    start: `start` returns it, on the monotonic clock, when all users stand ready.
    """

    def __init__(
        self,
        config: LoadConfig,
        priority: Priority,
        *,
        journal: Callable[[Path, Callable[[OSError], None]], JournalWriter] = JournalWriter,
        users: Callable[[list[Callable[[], None]], Callable[[], None]], None] = run_users,
        start: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._priority = priority
        self._run_users, self._start = users, start
        self._schedule = read(Schedule, Path(config.schedule_path))
        prompts = Prompts(config)
        headers = headers_of(config)
        try:
            endpoint = Endpoint(config.url)
        except OSError as error:
            raise TargetError(f"{config.url}: the host is unknown: {error.strerror}") from error
        tokenizer = None if config.tokenizer is None else open_tokenizer(Path(config.tokenizer))
        self._client = Client(endpoint, headers=headers, timeout_s=config.timeout_s)
        self._journal_error: OSError | None = None
        path = Path(config.journal_path)
        try:
            self._journal = journal(path, self._journal_failed)
        except OSError as error:
            raise TargetError(f"{path} cannot be written: {error.strerror}") from error
        self._sender = Sender(
            config, self._schedule, prompts, self._client, self._journal, tokenizer
        )
        self._began_s = 0.0
        self._began_cpu_s = 0.0

    @property
    def total(self) -> int:
        """Requests that are to be sent."""
        return self._sender.total

    def stop(self, because: str) -> None:
        """Send nothing more and abort what is in flight."""
        self._sender.stop(because)

    def run(self) -> int:
        """Send everything, write the result; return the exit code."""
        stop_on_signals(self._config, self.stop)
        result = self.send()
        write_whole(Path(self._config.result_path), to_json(result))
        return exit_code(result)

    def send(self) -> LoadResult:
        """Send everything; TargetError where the journal could not be written."""
        _allow_many_connections()
        gc.collect()
        gc.freeze()
        gc.disable()  # a full collection would hold up every read by tens of milliseconds
        gevent.setswitchinterval(POLL_EVERY_S)
        reporter = gevent.spawn(self._report_progress)
        self._run_users(self._sender.jobs(), self._begin)
        self._sender.drain()
        reporter.kill()
        self._client.close()
        result = self._result()
        line = msgspec.to_builtins(result)
        self._journal.add({"event": "close", "at_s": self._sender.now_s, **line})
        self._journal.close()
        self._print_progress()
        if self._journal_error is not None:
            raise journal_error(self._config, self._journal_error)
        return result

    def _begin(self) -> None:
        self._began_s, self._began_cpu_s = self._start(), time.process_time()
        self._sender.begin(self._began_s)
        self._journal.add(
            opening(self._config, self._schedule, total=self.total, began_s=self._began_s)
        )

    def _result(self) -> LoadResult:
        sender, client = self._sender, self._client
        return LoadResult(
            journal_path=self._config.journal_path,
            ended="complete" if sender.stopped_because is None else "interrupted",
            stopped_because=sender.stopped_because,
            attempt=self._config.attempt,
            counts=dict(sorted(sender.counts.items())),
            total=sender.total,
            elapsed_s=time.monotonic() - self._began_s,
            peak_in_flight=client.peak_in_flight,
            connections=client.num_connections,
            retries=sender.num_retries,
            reads=sender.num_reads,
            events=sender.num_events,
            kernel_stamps=sender.receive_lags.num > 0,
            receive_lag=_spread(sender.receive_lags),
            send_lag=_spread(sender.send_lags),
            clock_offset_moved_s=client.clock.moved_s,
            clock_events=client.clock.num_moves,
            cpu_s=time.process_time() - self._began_cpu_s,
            priority=self._priority,
        )

    def _journal_failed(self, error: OSError) -> None:
        self._journal_error = error
        self._sender.stop("the journal cannot be written")

    def _report_progress(self) -> None:
        while True:
            gevent.sleep(PROGRESS_EVERY_S)
            if self._began_s:
                self._print_progress()

    def _print_progress(self) -> None:
        print_progress(self._sender.progress)


def stop_on_signals(config: LoadConfig, stop: Callable[[str], None]) -> None:
    """Call `stop` for SIGTERM and SIGINT, and for SIGUSR1 with the reason that lies in a file."""

    def asked() -> None:
        try:
            because = stop_path(config).read_text(encoding="utf-8")
        except OSError:
            because = "the process that asked for the load said so"
        stop(because)

    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, stop, STOPPED_BY_USER)
    gevent.signal_handler(signal.SIGUSR1, asked)


def opening(
    config: LoadConfig, schedule: Schedule, *, total: int, began_s: float
) -> dict[str, Any]:
    """Return the first line of an attempt that begins at `began_s` on the monotonic clock."""
    return {
        "event": "open",
        "schema": SCHEMA,
        "monotonic_zero": began_s - config.time_base_s,
        "unix_zero": time.time() - time.monotonic() + began_s - config.time_base_s,
        "time_base_s": config.time_base_s,
        "attempt": config.attempt,
        "worker": config.worker,
        "workload": schedule.workload,
        "kind": schedule.kind,
        "total": total,
        "versions": {"locust": locust.__version__, "gevent": gevent.__version__},
    }


def exit_code(result: LoadResult) -> int:
    """Return the exit code of a load process that leaves `result`."""
    if result.ended == "complete":
        return 0
    return EXIT_INTERRUPTED if result.stopped_because == STOPPED_BY_USER else EXIT_STOPPED


def print_progress(progress: Progress) -> None:
    """Write one line of progress on standard output, for the process that asked for the load."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(msgspec.json.encode(progress).decode() + "\n")
        sys.stdout.flush()


def journal_error(config: LoadConfig, error: OSError) -> TargetError:
    """Return the sentence for a journal that could not be written to its end."""
    return TargetError(
        f"{config.journal_path} cannot be written: {error.strerror}; "
        "sending stopped, what was written stays"
    )


def _spread(lags: Lags) -> Spread | None:
    half, high = percentile(lags.sample, 0.5), percentile(lags.sample, 0.99)
    if half is None or high is None:
        return None
    return Spread(n=lags.num, p50=half, p99=high, max=lags.max)


def _allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def write_whole(path: Path, text: str) -> None:
    """Write `text` to `path` whole or not at all; TargetError where that is impossible."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise TargetError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def end_now(code: int) -> Any:
    """End without waiting for what Locust and gevent keep running."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end_now(main(sys.argv[1:]))
