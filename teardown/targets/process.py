"""A server that the kit starts and ends: log to a file, health by a deadline, no orphans."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from teardown.errors import EngineFailed, TeardownError
from teardown.targets import guard

POLL_S = 0.05
TERM_GRACE_S = 5.0
KILL_LIMIT_S = guard.END_LIMIT_S + 10.0
LOG_TAIL_CHARS = 300


class ServerProcess:
    """One running server under its guard; `pid` is the server's, which leads its process group."""

    def __init__(self, argv: list[str], env: dict[str, str], workdir: Path, log_path: Path) -> None:
        if threading.current_thread() is not threading.main_thread():
            # the kernel ties a child's death signal to the thread that started it
            raise TeardownError("a server must be started from the main thread")
        self.log_path = log_path
        reading, writing = os.pipe()
        command = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(writing)]
        try:
            with log_path.open("wb") as log:
                self._guard = subprocess.Popen(
                    [*command, "--", *argv],
                    cwd=workdir,
                    env={**os.environ, **env},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(writing,),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(reading)
            raise EngineFailed(f"the engine cannot be started: {error}") from error
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as channel:
            told = channel.read()
        if not told:
            self._guard.wait()
            raise EngineFailed("the engine cannot be started: its guard ended at once")
        self.pid = int(told)
        self.start_ticks = start_ticks(self.pid)

    def exit_code(self) -> int | None:
        """Return how the server ended (128 + signal for a signal); None while it runs."""
        return self._guard.poll()

    def log(self) -> str:
        """Return what the server has logged so far."""
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def wait_healthy(
        self, is_healthy: Callable[[], bool], reason: Callable[[str], str | None], limit_s: float
    ) -> None:
        """Return once healthy; EngineFailed with the reason when it dies or takes too long."""
        deadline = time.monotonic() + limit_s
        while True:
            if self._has_ended(POLL_S):
                log = self.log()
                raise EngineFailed(f"the engine did not start: {reason(log) or last_line(log)}")
            if is_healthy():
                return
            if time.monotonic() > deadline:
                raise EngineFailed(
                    f"the engine was not ready after {limit_s:.0f} s: "
                    f"{reason(self.log()) or last_line(self.log())}"
                )

    def stop(self, drain_s: float, is_idle: Callable[[], bool]) -> None:
        """End the server: wait for idle at most `drain_s`, SIGTERM, SIGKILL to its group."""
        deadline = time.monotonic() + drain_s
        while time.monotonic() < deadline and self.exit_code() is None and not is_idle():
            self._has_ended(POLL_S)
        if self.exit_code() is None:
            _signal(self.pid, signal.SIGTERM)
            if not self._has_ended(TERM_GRACE_S):
                guard.kill_group(self.pid)
        self._wait_for_end()

    def kill(self) -> None:
        """End the server and its children at once."""
        if self.exit_code() is None:
            guard.kill_group(self.pid)
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        if not self._has_ended(KILL_LIMIT_S):
            raise EngineFailed(
                f"the engine (process {self.pid}) did not end within {KILL_LIMIT_S:.0f} s of a "
                "SIGKILL; a driver may hold it"
            )

    def _has_ended(self, timeout_s: float) -> bool:
        try:
            self._guard.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True


def start_ticks(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since boot; None when it is gone.

    With the pid it names one process for ever: pids are used again, pairs are not.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def kill_survivor(pid: int, ticks: int | None) -> bool:
    """Kill process `pid` with its group if it is still the one that started at `ticks`."""
    if ticks is None or start_ticks(pid) != ticks:
        return False
    guard.kill_group(pid)
    _signal(pid, signal.SIGKILL)
    deadline = time.monotonic() + TERM_GRACE_S
    while start_ticks(pid) == ticks and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return True


def last_line(log: str) -> str:
    """Return the last line of `log` that says anything, shortened."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return f"its log ends with {lines[-1][-LOG_TAIL_CHARS:]!r}" if lines else "its log is empty"


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
