"""A scripted OpenAI-compatible server: every byte, when it is written, and how it ends.

A script is a list of `(t_ms, raw)`: `raw` is written `t_ms` milliseconds after the request was
read, each as a TCP write of its own; `CLOSE` and `RESET` in its place end the connection, `HANG`
waits for the client to go. The `chat_*` helpers build common scripts. Nothing is guessed from the
request, so a test knows the truth that a client must find.

    with FakeEngine(chat_stream(["Hello", " world"], first_ms=20, gap_ms=10)) as fake:
        post(fake.url + "/chat/completions", ...)

No third-party packages. One thread accepts, one thread serves each connection.
"""

import contextlib
import enum
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


class Act(enum.Enum):
    """What a script does to its connection in place of a write."""

    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


CLOSE, RESET, HANG = Act.CLOSE, Act.RESET, Act.HANG
Script = list[tuple[float, bytes | Act]]


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
    """What was written for one POST: monotonic time before each write, in the script's order."""

    seen: Seen
    written_s: list[float] = field(default_factory=list)


ScriptFor = Script | list[Script] | Callable[[Seen], Script]


class FakeEngine:
    """Serves scripts on a free port of the loopback address while its block runs.

    script_for: one script for all, a list (the n-th POST gets the n-th, the last one stays), or a
    function of the request. pages: body by path for GET. idle_close_s: a kept-alive connection is
    closed after that long without a request.
    """

    def __init__(
        self,
        script_for: ScriptFor,
        *,
        pages: dict[str, str] | None = None,
        model: str = "fake",
        idle_close_s: float | None = None,
        ssl_context: Any = None,
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
                with self._lock:
                    self.num_writes += 1
                    if number == len(script) - 1:  # count it out before the client can come back
                        self.in_flight -= 1
                        is_counted = False
                    served.written_s.append(time.monotonic())
                wire.sendall(raw)
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


def http_reply(
    body: bytes,
    *,
    status: str = "200 OK",
    content_type: str = "application/json",
    headers: Sequence[str] = (),
) -> bytes:
    """A whole reply with its length."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"


def http_chunk(data: bytes) -> bytes:
    """`data` in the framing of chunked transfer coding."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def sse(document: Any, newline: str = "\n") -> bytes:
    """One event; a string goes as it is, anything else as JSON."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return f"data: {text}{newline}{newline}".encode()


def chunk_document(
    delta: dict[str, Any] | None = None, finish_reason: str | None = None, **more: Any
) -> dict[str, Any]:
    """One chat.completion.chunk; without a delta it has no choices (usage alone)."""
    choices = []
    if delta is not None:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    base = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
    return {**base, "choices": choices, **more}


def usage_document(
    completion: int, prompt: int = 10, reasoning: int | None = None, cached: int | None = None
) -> dict[str, Any]:
    """A usage object; details are null where their count is None."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": None if reasoning is None else {"reasoning_tokens": reasoning},
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
    }


def stream_script(events: Sequence[tuple[float, bytes]], *, end_ms: float | None = None) -> Script:
    """A 200 reply whose events are written at their times, then the end of the body."""
    script: Script = [(0.0, STREAM_HEAD)]
    script += [(t_ms, http_chunk(data)) for t_ms, data in events]
    last_ms = events[-1][0] if events else 0.0
    return [*script, (last_ms if end_ms is None else end_ms, STREAM_END)]


def chat_events(
    texts: Sequence[str],
    *,
    first_ms: float = 20.0,
    gap_ms: float = 10.0,
    role_ms: float = 1.0,
    usage: dict[str, Any] | None = None,
    finish_reason: str | None = "length",
    done: bool = True,
    more: dict[str, Any] | None = None,
) -> list[tuple[float, bytes]]:
    """Role, one content delta per text, finish reason, usage, [DONE]; usage None: one token each.

    more: further members of the event with the finish reason (llama.cpp's `timings`).
    """
    events = [(role_ms, sse(chunk_document({"role": "assistant", "content": ""})))]
    for number, text in enumerate(texts):
        events.append((first_ms + number * gap_ms, sse(chunk_document({"content": text}))))
    last_ms = events[-1][0]
    tail = b""
    if finish_reason is not None:
        tail += sse(chunk_document({}, finish_reason, **(more or {})))
        tail += sse(chunk_document(usage=usage or usage_document(len(texts))))
    if done:
        tail += sse("[DONE]")
    return [*events, (last_ms, tail)] if tail else events


def chat_stream(texts: Sequence[str], **options: Any) -> Script:
    """The script of an ordinary streamed answer; options as for `chat_events`."""
    return stream_script(chat_events(texts, **options))


def chat_json(text: str, *, at_ms: float = 20.0, usage: dict[str, Any] | None = None) -> Script:
    """A reply that is not streamed."""
    message = {"role": "assistant", "content": text}
    document = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage or usage_document(5),
    }
    return [(at_ms, http_reply(json.dumps(document).encode()))]


def chat_error(texts: Sequence[str], message: str = "out of memory", **options: Any) -> Script:
    """A 200 reply that turns into an error object after some content."""
    events = chat_events(texts, finish_reason=None, done=False, **options)
    last_ms = events[-1][0]
    error = {"error": {"message": message, "type": "server_error", "code": 500}}
    return stream_script([*events, (last_ms + 1, sse(error) + sse("[DONE]"))])


def chat_cut(texts: Sequence[str], act: Act = CLOSE, **options: Any) -> Script:
    """An answer that ends in the middle, by a plain close or by a reset."""
    script = stream_script(chat_events(texts, finish_reason=None, done=False, **options))
    last_ms = script[-1][0]
    return [*script[:-1], (last_ms + 5, act)]


def refusal(code: int = 429, at_ms: float = 0.0) -> Script:
    """A reply of 429 or 503."""
    names = {429: "Too Many Requests", 503: "Service Unavailable", 500: "Internal Server Error"}
    body = json.dumps({"error": {"message": f"refused with {code}"}}).encode()
    return [(at_ms, http_reply(body, status=f"{code} {names.get(code, 'Error')}"))]
