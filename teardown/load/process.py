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
from array import array
from pathlib import Path
from typing import Any, Final

import gevent
import msgspec

from teardown.errors import TargetError, TeardownError, UsageError
from teardown.load.client import Client, Endpoint
from teardown.load.config import LoadConfig, LoadResult
from teardown.load.journal import SCHEMA
from teardown.load.journal_writer import JournalWriter
from teardown.load.priority import Priority, run_promptly
from teardown.load.prompts import Prompts
from teardown.load.record import percentile
from teardown.load.sender import Sender
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
        return _Run(config, run_promptly()).run()
    except TeardownError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def die_with_parent(parent_pid: int | None) -> None:
    """Ask the kernel to kill this process when its parent ends; TargetError if it already has."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:
        raise TargetError("the process that asked for the load has ended")


class _Run:
    """One attempt: everything that is opened for it, and how it ended."""

    def __init__(self, config: LoadConfig, priority: Priority) -> None:
        self._config = config
        self._priority = priority
        self._schedule = read(Schedule, Path(config.schedule_path))
        prompts = Prompts(config)
        headers = _headers(config)
        try:
            endpoint = Endpoint(config.url)
        except OSError as error:
            raise TargetError(f"{config.url}: the host is unknown: {error.strerror}") from error
        self._client = Client(endpoint, headers=headers, timeout_s=config.timeout_s)
        self._journal_error: OSError | None = None
        path = Path(config.journal_path)
        try:
            self._journal = JournalWriter(path, self._journal_failed)
        except OSError as error:
            raise TargetError(f"{path} cannot be written: {error.strerror}") from error
        self._sender = Sender(config, self._schedule, prompts, self._client, self._journal)
        self._began_s = 0.0
        self._began_cpu_s = 0.0

    def run(self) -> int:
        """Send everything; return the exit code."""
        _allow_many_connections()
        gc.collect()
        gc.freeze()
        gevent.setswitchinterval(POLL_EVERY_S)
        for number in (signal.SIGTERM, signal.SIGINT):
            gevent.signal_handler(number, self._sender.stop, STOPPED_BY_USER)
        reporter = gevent.spawn(self._report_progress)
        run_users(self._sender.jobs(), self._begin)
        self._sender.drain()
        reporter.kill()
        self._client.close()
        result = self._result()
        line = msgspec.to_builtins(result)
        self._journal.add({"event": "close", "at_s": self._sender.now_s, **line})
        self._journal.close()
        self._print_progress()
        if self._journal_error is not None:
            raise TargetError(
                f"{self._config.journal_path} cannot be written: {self._journal_error.strerror}; "
                "sending stopped, what was written stays"
            )
        _write_whole(Path(self._config.result_path), to_json(result))
        if result.ended == "complete":
            return 0
        return EXIT_INTERRUPTED if result.stopped_because == STOPPED_BY_USER else EXIT_STOPPED

    def _begin(self) -> None:
        self._began_s, self._began_cpu_s = time.monotonic(), time.process_time()
        self._sender.begin(self._began_s)
        self._journal.add(
            {
                "event": "open",
                "schema": SCHEMA,
                "monotonic_zero": self._began_s - self._config.time_base_s,
                "unix_zero": time.time() - self._config.time_base_s,
                "time_base_s": self._config.time_base_s,
                "attempt": self._config.attempt,
                "worker": self._config.worker,
                "workload": self._schedule.workload,
                "kind": self._schedule.kind,
                "total": self._sender.total,
                "versions": {"locust": locust.__version__, "gevent": gevent.__version__},
            }
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
            kernel_stamps=len(sender.receive_lags_s) > 0,
            receive_lag=_spread(sender.receive_lags_s),
            send_lag=_spread(sender.send_lags_s),
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
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(msgspec.json.encode(self._sender.progress).decode() + "\n")
            sys.stdout.flush()


def _headers(config: LoadConfig) -> dict[str, str]:
    headers = {"Accept": "text/event-stream", **config.extra_headers}
    if config.api_key_env is not None:
        key = os.environ.get(config.api_key_env)
        if not key:
            raise UsageError(f"the environment variable {config.api_key_env} has no API key")
        headers["Authorization"] = f"Bearer {key}"
    if any("\n" in text or "\r" in text for pair in headers.items() for text in pair):
        raise UsageError("a header contains a line break")
    return headers


def _spread(values: "array[float]") -> Spread | None:
    half, high = percentile(values, 0.5), percentile(values, 0.99)
    if half is None or high is None:
        return None
    return Spread(n=len(values), p50=half, p99=high, max=max(values))


def _allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _write_whole(path: Path, text: str) -> None:
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


def _exit(code: int) -> Any:
    """End without waiting for what Locust and gevent keep running."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _exit(main(sys.argv[1:]))
