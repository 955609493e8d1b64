"""The paced server from Python: compiled, pinned to its core, stopped, its log read."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("paced_server.c")
NUM_EVENTS = 160
PER_SECOND = 40.0
FIRST_MS = 20.0
SPREAD_MS = 20.0


class CannotRun(Exception):
    """A part of the benchmark cannot run here; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """What the server did: one row a finished stream.

    tag: max_tokens of its request; read_s: when the request was read, shape (streams,);
    sent_s: when each event was written, shape (streams, events). Seconds of CLOCK_MONOTONIC.
    """

    tag: np.ndarray
    read_s: np.ndarray
    sent_s: np.ndarray

    @property
    def ttft_s(self) -> np.ndarray:
        """First event less request, per stream."""
        return self.sent_s[:, 0] - self.read_s

    @property
    def gap_s(self) -> float:
        """Mean time between events."""
        return float(np.diff(self.sent_s, axis=1).mean())


@dataclass(slots=True)
class PacedServer:
    """A server that runs; `counters` and `log_path` are complete once it has stopped."""

    url: str
    pid: int
    log_path: Path
    num_events: int
    counters: dict[str, float]

    def streams(self) -> Streams:
        """Read the log of the finished streams."""
        rows = np.fromfile(self.log_path, dtype=np.uint64).reshape(-1, 3 + self.num_events)
        return Streams(tag=rows[:, 0], read_s=rows[:, 2] / 1e9, sent_s=rows[:, 3:] / 1e9)


def compile_server(folder: Path) -> Path:
    """Compile the server into `folder`; CannotRun without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise CannotRun("no C compiler: install gcc (Debian: apt install gcc libc6-dev)")
    program = folder / "paced_server"
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise CannotRun(f"{SOURCE.name} does not compile: {found.stderr.strip()}")
    return program


@contextmanager
def paced_server(
    program: Path,
    folder: Path,
    *,
    core: int | None,
    num_events: int = NUM_EVENTS,
    per_second: float = PER_SECOND,
    seed: int = 1,
) -> Iterator[PacedServer]:
    """Run the server on `core` until the block ends; then its counters are filled in.

    It runs at real-time priority where that is allowed, so that whatever shares its core does not
    move its events.
    """
    log_path = folder / "server.log"
    settings = [num_events, per_second, FIRST_MS, SPREAD_MS, seed, log_path]
    process = subprocess.Popen(
        [str(program), *map(str, settings)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        with suppress(OSError):
            os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(1))
        port = process.stdout.readline().strip()
        if not port:
            raise CannotRun("the paced server did not start")
        url = f"http://127.0.0.1:{port}/v1"
        server = PacedServer(url, process.pid, log_path, num_events, {})
        yield server
        process.send_signal(signal.SIGTERM)
        server.counters |= json.loads(process.stdout.read())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
