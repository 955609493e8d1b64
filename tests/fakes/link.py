"""A TCP link that takes its time: what comes in goes on after a delay, in both directions.

    with SlowLink(("127.0.0.1", 0), ("127.0.0.1", port), delay_s=0.02) as link:
        connect(link.port)

Stands in for netem, which not every kernel has. Segments keep their distances; the delay is added
once a way.
"""

import contextlib
import queue
import socket
import threading
import time
from typing import Self

Address = tuple[str, int]


class SlowLink:
    """Forwards every connection to `listen` on to `target`, `delay_s` later each way."""

    def __init__(self, listen: Address, target: Address, *, delay_s: float) -> None:
        self._listen, self._target, self._delay_s = listen, target, delay_s
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._listener = socket.create_server(self._listen, backlog=256)
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for end in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                far = socket.create_connection(self._target)
                self._sockets.append(far)
            except OSError:
                if self._stop.is_set():
                    return
                near.close()  # nobody there: the caller finds the connection closed
                continue
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                line: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                self._spawn(self._read, source, line)
                self._spawn(self._write, sink, line)

    def _read(self, source: socket.socket, line: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            line.put((time.monotonic() + self._delay_s, data))

    def _write(self, sink: socket.socket, line: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        data = b"-"
        while data:
            due_s, data = line.get()
            self._stop.wait(max(due_s - time.monotonic(), 0.0))
            with contextlib.suppress(OSError):
                if data:
                    sink.sendall(data)
                else:
                    sink.shutdown(socket.SHUT_WR)
