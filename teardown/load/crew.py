"""The workers of a run as processes and connections: started, spoken to, and ended with it."""

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import msgspec
from locust.exception import RPCError

from teardown.errors import TargetError, UsageError
from teardown.load.config import LoadConfig
from teardown.load.messages import (
    FROM_WORKER,
    Message,
    Place,
    from_data,
    name_of,
    place_of,
    to_data,
)
from teardown.load.users import load_environment

THIS_HOST: Final = "127.0.0.1"
LOOPBACK: Final = ("localhost", "127.", "[::1]", "::1")
JOIN_S: Final = 60.0  # for a process of this host
EXIT_S: Final = 5.0
Hear = Callable[[str, object, float], None]

log = logging.getLogger(__name__)


class Crew:
    """Listens while its block runs; starts `config.workers` processes unless others will join.

    Every message goes to `hear` with its node and the time at which it came. Our processes have
    ended when the block has.
    """

    def __init__(self, config: LoadConfig, hear: Hear) -> None:
        self._config, self._hear = config, hear
        self._processes: list[subprocess.Popen[bytes]] = []
        asked = Place(THIS_HOST, 0) if config.listen is None else place_of(config.listen)
        if config.listen is not None:
            _refuse_own_address(config.url, asked)
        self._runner = _listen(asked)
        self.place = Place(asked.host, self._runner.server.port)
        for kind in FROM_WORKER:
            self._runner.register_message(name_of(kind), self._hearing(kind))

    def __enter__(self) -> Self:
        """Start our own processes."""
        self._folder = tempfile.TemporaryDirectory(prefix="teardown-workers-")
        if self._config.listen is None:
            for number in range(self._config.workers):
                self._processes.append(self._start(number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell everybody to leave; end the processes that do not."""
        self._runner.quit()
        until_s = time.monotonic() + EXIT_S
        for process in self._processes:
            if error is not None:
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(until_s - time.monotonic(), 0.0))
            if process.poll() is None:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def send(self, node: str, message: Message) -> None:
        """Send `message` to one worker; what gets lost is found missing later."""
        try:
            self._runner.send_message(name_of(type(message)), to_data(message), client_id=node)
        except RPCError as error:
            log.error("a message to worker %s was not sent: %s", node, error)

    def process_of(self, pid: int) -> Any:
        """Return our process `pid`; None where it is not ours."""
        return next((process for process in self._processes if process.pid == pid), None)

    def first_ended(self) -> Any:
        """Return one of our processes that has ended; None where all run."""
        return next((process for process in self._processes if process.poll() is not None), None)

    def last_words(self, process: Any) -> str:
        """Return how a process of ours ended, with the last line that it wrote."""
        text = self._log_of(self._processes.index(process)).read_text(errors="replace").strip()
        ended = f"its process ended with code {process.poll()}"
        return f"{ended}: {text.splitlines()[-1]}" if text else ended

    def _log_of(self, number: int) -> Path:
        return Path(self._folder.name) / f"{number + 1}.log"

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        folder = Path(self._folder.name) / str(number + 1)
        folder.mkdir()
        command = [sys.executable, "-m", "teardown.load.worker", str(self.place)]
        command += [str(folder), str(JOIN_S), str(os.getpid())]
        with self._log_of(number).open("wb") as stderr:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)

    def _hearing(self, kind: type) -> Callable[..., None]:
        """Return a handler of one kind of message, as Locust calls it."""

        def hear(environment: Any, msg: Any, **_: Any) -> None:
            heard_s = time.monotonic()
            try:
                message: object = from_data(kind, msg.data)
            except msgspec.ValidationError as error:
                log.error("a message of worker %s cannot be read: %s", msg.node_id, error)
                return
            self._hear(msg.node_id, message, heard_s)

        return hear


def _listen(place: Place) -> Any:
    try:
        return load_environment().create_master_runner(place.host, place.port)
    except (RPCError, SystemExit) as error:  # Locust leaves where the port is busy
        raise TargetError(
            f"workers cannot be waited for at {place}: the address is not of this host, or its "
            "port is taken"
        ) from error


def _refuse_own_address(url: str, place: Place) -> None:
    """Raise UsageError where workers of other hosts are to send to this host's own address."""
    host = urlsplit(url).hostname or ""
    if host.startswith(LOOPBACK) and not place.host.startswith(LOOPBACK):
        raise UsageError(
            f"{url} is an address of this host alone; workers on other hosts need one that they "
            "can reach"
        )
