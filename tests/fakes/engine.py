"""A scripted OpenAI-compatible server: every byte, when it is written, and how it ends.

A script (see `tests/fakes/scripts.py`) is a list of `(t_ms, raw)`, each a TCP write of its own,
that many milliseconds after the request was read. Nothing is guessed from the request, so a test
knows the truth that a client must find.

    with FakeEngine(chat_stream(["Hello", " world"], first_ms=20, gap_ms=10)) as fake:
        post(fake.url + "/chat/completions", ...)

No third-party packages. One thread accepts, one thread serves each connection.
"""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from tests.fakes.scripts import (
    CLOSE,
    HANG,
    RESET,
    STREAM_END,
    STREAM_HEAD,
    Act,
    Script,
    chat_cut,
    chat_error,
    chat_events,
    chat_json,
    chat_stream,
    chunk_document,
    http_chunk,
    http_reply,
    refusal,
    sse,
    stream_script,
    usage_document,
)
from tests.fakes.splits import pieces

__all__ = [
    "CLOSE",
    "HANG",
    "RESET",
    "STREAM_END",
    "STREAM_HEAD",
    "Act",
    "FakeEngine",
    "Script",
    "ScriptFor",
    "Seen",
    "Served",
    "chat_cut",
    "chat_error",
    "chat_events",
    "chat_json",
    "chat_stream",
    "chunk_document",
    "http_chunk",
    "http_reply",
    "refusal",
    "sse",
    "stream_script",
    "usage_document",
]


@dataclass(frozen=True)
class Seen:
    """One request as it was read. `connection` counts from 0, `index` counts POSTs from 0, and
    `index_on_connection` counts the POSTs of its connection."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    index: int
    connection: int
    index_on_connection: int
    read_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """What was written for one POST: monotonic time before and after each write, in the script's
    order; of a write that is split, of its last piece. The bytes left in between.
    """

    seen: Seen
    written_s: list[float] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)


ScriptFor = Script | list[Script] | Callable[[Seen], Script]


class FakeEngine:
    """Serves scripts on a free port of the loopback address while its block runs.

    script_for: one script for all, a list (the n-th POST gets the n-th, the last one stays), or a
    function of the request. pages: body by path for GET. idle_close_s: a kept-alive connection is
    closed after that long without a request. split: every write goes out whole, byte by byte or cut
    at random places (`tests/fakes/splits.py`).
    """

    def __init__(
        self,
        script_for: ScriptFor,
        *,
        pages: dict[str, str] | None = None,
        model: str = "fake",
        idle_close_s: float | None = None,
        ssl_context: Any = None,
        split: str = "whole",
    ) -> None:
        self._script_for = script_for
        self.pages = {
            "/health": '{"status": "ok"}',
            "/metrics": "# no metrics\n",
            "/v1/models": json.dumps(
                {"object": "list", "data": [{"id": model, "object": "model", "owned_by": "fake"}]}
            ),
            **(pages or {}),
        }
        self._idle_close_s = idle_close_s
        self._ssl_context = ssl_context
        self._split = split
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.served: list[Served] = []
        self.num_connections = 0
        self.num_requests = 0
        self.num_writes = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self.peak_connections = 0
        self.arrived = threading.Condition(self._lock)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(10)

    @property
    def root(self) -> str:
        scheme = "http" if self._ssl_context is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    @property
    def bodies(self) -> list[Any]:
        """JSON bodies of all POSTs, in the order of arrival."""
        return [served.seen.json for served in self.served]

    def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Return when `count` POSTs have arrived; TimeoutError after `timeout_s`."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: self.num_requests >= count, timeout_s):
                raise TimeoutError(f"{self.num_requests} of {count} requests arrived")

    def _spawn(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                number = self.num_connections
                self.num_connections += 1
                self._open.add(connection)
                self.peak_connections = max(self.peak_connections, len(self._open))
            self._spawn(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        wire = connection
        try:
            if self._ssl_context is not None:
                wire = self._ssl_context.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._open.add(wire)
                    self._open.discard(connection)
            connection_posts = 0
            reader = wire.makefile("rb")
            with reader:
                while not self._stop.is_set():
                    wire.settimeout(self._idle_close_s)
                    seen = self._read(reader, number, connection_posts)
                    wire.settimeout(None)
                    if seen is None:
                        return
                    if seen.method == "GET":
                        wire.sendall(self._page(seen.path))
                        continue
                    connection_posts += 1
                    if not self._play(wire, seen):
                        return
        except (OSError, ValueError):
            return  # the client went away, or we are stopping
        finally:
            with self._lock:
                self._open.discard(wire)
                self._open.discard(connection)
            wire.close()

    def _read(self, reader: Any, number: int, connection_posts: int) -> Seen | None:
        first = reader.readline()
        if not first.strip():
            return None
        method, path, _ = first.decode("latin-1").split(" ", 2)
        headers: dict[str, str] = {}
        while (line := reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        with self.arrived:
            index = self.num_requests
            seen = Seen(
                method, path, headers, body, index, number, connection_posts, time.monotonic()
            )
            if method != "GET":
                self.num_requests += 1
                self.in_flight += 1
                self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
                self.served.append(Served(seen))
                self.arrived.notify_all()
        return seen

    def _page(self, path: str) -> bytes:
        body = self.pages.get(path.partition("?")[0])
        if body is None:
            return http_reply(b'{"error": {"message": "no such page"}}', status="404 Not Found")
        kind = "application/json" if body.lstrip().startswith(("{", "[")) else "text/plain"
        return http_reply(body.encode(), content_type=kind)

    def _script(self, seen: Seen) -> Script:
        if callable(self._script_for):
            return self._script_for(seen)
        if self._script_for and isinstance(self._script_for[0], list):
            scripts = [script for script in self._script_for if isinstance(script, list)]
            return scripts[min(seen.index, len(scripts) - 1)]
        return [step for step in self._script_for if isinstance(step, tuple)]

    def _play(self, wire: socket.socket, seen: Seen) -> bool:
        """Write the script; return whether the connection stays open."""
        served = self.served[seen.index]
        is_counted = True
        script = self._script(seen)
        try:
            for number, (t_ms, raw) in enumerate(script):
                due_s = seen.read_s + t_ms / 1000
                while (left_s := due_s - time.monotonic()) > 0:
                    if self._stop.wait(left_s):
                        return False
                if isinstance(raw, Act):
                    self._end(wire, raw)
                    return False
                *parts, last = pieces(raw, self._split)
                for part in parts:
                    wire.sendall(part)
                with self._lock:
                    self.num_writes += 1
                    if number == len(script) - 1:  # count it out before the client can come back
                        self.in_flight -= 1
                        is_counted = False
                    served.written_s.append(time.monotonic())
                wire.sendall(last)
                served.left_s.append(time.monotonic())
            return True
        finally:
            if is_counted:
                with self._lock:
                    self.in_flight -= 1

    def _end(self, wire: socket.socket, act: Act) -> None:
        if act is Act.RESET:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif act is Act.HANG:
            with contextlib.suppress(OSError):
                while wire.recv(4096) and not self._stop.is_set():
                    pass
