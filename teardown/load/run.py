"""A load runs in a process of its own, which dies with ours and keeps its journal in any case."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

import msgspec

from teardown.errors import Interrupted, TargetError, TeardownError, UsageError
from teardown.load.config import LoadConfig, LoadResult, Progress, stop_path
from teardown.load.messages import place_of
from teardown.records import read, to_json

STOP_WAIT_S: Final = 15.0  # time to write the journal's end after SIGTERM
STDERR_LINES: Final = 12
LOOK_EVERY_S: Final = 0.4  # a passed limit must end the run within a second
EXIT_ERRORS: Final[dict[int, type[TeardownError]]] = {2: UsageError, 3: TargetError}
EXIT_WITH_RESULT: Final = (0, 4)
EXIT_MORE_RUNS: Final = 10  # of a worker: its master has another run for it
EXIT_NOBODY: Final = 11  # of a worker: it met a master that was about to leave


def run_load(
    config: LoadConfig,
    on_progress: Callable[[Progress], None],
    python: str = sys.executable,
    stop_when: Callable[[], str | None] | None = None,
) -> LoadResult:
    """Run the load of `config`, in one process or with workers, and return how it ended.

    stop_when: looked at every `LOOK_EVERY_S` in a thread of its own; the sentence that it returns
    ends the run. A run that it or `stop_if` ended is returned (`ended` is "interrupted"), because
    its records count.
    Raises Interrupted after Ctrl-C, once the journal is closed; UsageError and TargetError as the
    process reports them; TeardownError with the last lines of its standard error for anything else.
    """
    result_path = Path(config.result_path)
    config_path = result_path.with_name(f"{result_path.stem}.config.json")
    try:
        result_path.unlink(missing_ok=True)
        config_path.write_text(to_json(replace(config, parent_pid=os.getpid())), encoding="utf-8")
    except OSError as error:
        raise TargetError(f"{config_path} cannot be written: {error.strerror}") from error
    with tempfile.TemporaryFile() as stderr:
        module = "teardown.load.master" if config.is_shared else "teardown.load.process"
        command = [python, "-m", module, str(config_path)]
        code = _spawn(command, on_progress, stderr, _Watcher(config, stop_when))
        tail = _tail(stderr)
    if code in EXIT_WITH_RESULT:
        return read(LoadResult, result_path)
    if code in EXIT_ERRORS:
        raise EXIT_ERRORS[code](tail or f"the load process ended with code {code}")
    if code == Interrupted.exit_code:
        raise Interrupted(f"stopped; what was measured is in {config.journal_path}")
    raise TeardownError(
        f"the load process ended with code {code}; its journal is {config.journal_path}\n{tail}"
    )


def run_worker(
    join: str,
    folder: Path,
    wait_s: float,
    on_progress: Callable[[Progress], None],
    python: str = sys.executable,
) -> int:
    """Be a worker of the master at `join` until it has no more runs; return how many there were.

    The journal of each run is kept in `folder` while it goes on, and longer where the master did
    not get all of it. UsageError and TargetError as the worker process reports them.
    """
    place = place_of(join)
    num_runs = 0
    while True:
        command = [python, "-m", "teardown.load.worker", str(place), str(folder), str(wait_s)]
        with tempfile.TemporaryFile() as stderr:
            code = _spawn([*command, str(os.getpid())], on_progress, stderr)
            tail = _tail(stderr)
        num_runs += code in (0, EXIT_MORE_RUNS)
        if code == 0:
            return num_runs
        if code in EXIT_ERRORS:
            raise EXIT_ERRORS[code](tail or f"the worker process ended with code {code}")
        if code == Interrupted.exit_code:
            raise Interrupted("stopped; the other workers go on")
        if code not in (EXIT_MORE_RUNS, EXIT_NOBODY):
            raise TeardownError(f"the worker process ended with code {code}\n{tail}")


class _Watcher:
    """Looks while a process runs, and tells it to stop, with the reason in a file beside."""

    def __init__(self, config: LoadConfig, stop_when: Callable[[], str | None] | None) -> None:
        self._stop_when = stop_when
        self._path = stop_path(config)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, process: "subprocess.Popen[str]") -> None:
        """Start to look, where there is something to look at."""
        if self._stop_when is not None:
            self._thread = threading.Thread(
                target=self._look, args=(process, self._stop_when), daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._path.unlink(missing_ok=True)

    def _look(self, process: "subprocess.Popen[str]", stop_when: Callable[[], str | None]) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            because = stop_when()
            if because is not None:
                self._path.write_text(because, encoding="utf-8")
                process.send_signal(signal.SIGUSR1)
                return


def _spawn(
    command: list[str],
    on_progress: Callable[[Progress], None],
    stderr: IO[bytes],
    watcher: _Watcher | None = None,
) -> int:
    # a session of its own: Ctrl-C reaches us alone, and we pass it on once
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
    )
    try:
        if watcher is not None:
            watcher.begin(process)
        _relay(process, on_progress)
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_WAIT_S)
        return Interrupted.exit_code
    finally:
        if watcher is not None:
            watcher.end()
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _relay(process: "subprocess.Popen[str]", on_progress: Callable[[Progress], None]) -> None:
    for line in process.stdout or ():
        try:
            progress = msgspec.json.decode(line, type=Progress)
        except msgspec.DecodeError:
            continue  # not ours: a library may print
        on_progress(progress)


def _tail(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    lines = stderr.read().decode("utf-8", errors="replace").strip().splitlines()
    return "\n".join(lines[-STDERR_LINES:])
