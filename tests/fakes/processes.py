"""Finding, waiting for and ending the processes that a test has started, indirectly too."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def wait_until(is_reached: Callable[[], bool], timeout_s: float = 20.0) -> float:
    """Return how long it took until something was so; TimeoutError where it never was."""
    began_s = time.monotonic()
    while not is_reached():
        if time.monotonic() - began_s > timeout_s:
            raise TimeoutError("waited too long")
        time.sleep(0.01)
    return time.monotonic() - began_s


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def meanwhile(act: Callable[[], Any]) -> Iterator[None]:
    """Do something in a thread while the block runs; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
    if raised:
        raise raised[0]


def load_workers(below: int) -> list[int]:
    """Return the process ids of load workers among the descendants of process `below`."""
    found = []
    for child in _children(below):
        if b"teardown.load.worker" in _command(child):
            found.append(child)
        found += load_workers(child)
    return found


def is_running(pid: int) -> bool:
    """True unless the process has ended, whether or not anybody has taken note of it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def kill(pid: int) -> None:
    """End a process as a power cut would."""
    os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        lists = [(task / "children").read_text() for task in tasks]
    except OSError:
        return []
    return [int(child) for text in lists for child in text.split()]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
