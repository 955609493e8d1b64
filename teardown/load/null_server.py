"""A server that knows no model: `python -m teardown.load.null_server`.

It answers every chat completion with one stream shape: the first chunk `--first-s` after the
request has arrived, then the others `--gap-s` apart, each event a write of its own that carries its
send time (`sent_ns`, CLOCK_MONOTONIC). It prints its address. With `--log` it serves until its
standard input ends, and then writes when each request arrived (kernel stamp) and when each chunk
was sent: the truth that a client's numbers are held against. A request is known by its
`max_tokens`, which has no other use here.
"""

import argparse
import contextlib
import gc
import heapq
import json
import os
import resource
import select
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from teardown.load.clock import StampClock
from teardown.load.priority import run_promptly
from teardown.load.wire import ANCILLARY_BYTES, READ_BYTES, SO_TIMESTAMPNS, TIMESPEC

HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
TAIL: Final = b"0\r\n\r\n"
MODEL: Final = "null"
USAGE: Final = (
    b'data: {"object":"chat.completion.chunk","choices":[],"usage":'
    b'{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}}\n\ndata: [DONE]\n\n'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One answered request, seconds of CLOCK_MONOTONIC: arrival, and each chunk's send time."""

    key: int
    arrived_s: float
    sent_s: list[float]


@dataclass(slots=True, eq=False)
class _Stream:
    """One connection and the answer that is being written to it."""

    connection: socket.socket
    unread: bytearray = field(default_factory=bytearray)
    key: int = 0
    arrived_s: float = 0.0
    sent_s: list[float] = field(default_factory=list)


class NullServer:
    """Serves one stream shape on a free port of the loopback address until it is stopped."""

    def __init__(self, *, first_s: float, gap_s: float, num_chunks: int, chunk_bytes: int) -> None:
        self._first_s, self._gap_s, self._num_chunks = first_s, gap_s, num_chunks
        self._texts = [_chunk_text(chunk_bytes, is_last=last) for last in (False, True)]
        usage = USAGE % (num_chunks, num_chunks + 1)
        self._end = b"%x\r\n%s\r\n%s" % (len(usage), usage, TAIL)
        self._clock = StampClock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        _ask_for_stamps(self._listener)  # before the first client comes: stamping begins with a lag
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._due: list[tuple[float, int, _Stream]] = []
        self._num_planned = 0
        self._is_stopping = self._is_kept = False
        self.served: list[Served] = []
        self.port: int = self._listener.getsockname()[1]

    def keep_until_end_of(self, file: IO[bytes]) -> None:
        """Keep in `served` what is sent; let `serve` return when nothing more comes from `file`."""

        def look() -> None:
            self._is_stopping = not os.read(file.fileno(), READ_BYTES)

        self._is_kept = True
        self._selector.register(file, selectors.EVENT_READ, look)

    def serve(self) -> None:
        """Answer requests for ever, or until a watched file ends."""
        selector = self._selector
        while not self._is_stopping:
            self._write_due(time.monotonic())
            # select keeps to microseconds where epoll rounds up to a millisecond, and watches one
            # descriptor here: the selector's own
            wait_s = self._due[0][0] - time.monotonic() if self._due else None
            select.select([selector.fileno()], [], [], None if wait_s is None else max(wait_s, 0))
            for ready, _ in selector.select(0):
                ready.data()

    def close(self) -> None:
        """Close every connection."""
        for ready in list(self._selector.get_map().values()):
            if isinstance(ready.fileobj, socket.socket):
                ready.fileobj.close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client has gone again
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _ask_for_stamps(connection)
        read = partial(self._read, _Stream(connection))
        self._selector.register(connection, selectors.EVENT_READ, read)

    def _read(self, stream: _Stream) -> None:
        try:
            data, ancillary, _, _ = stream.connection.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._drop(stream)
            return
        reading = self._clock.read(_wall_ns(ancillary))
        stream.unread += data
        head, found, rest = bytes(stream.unread).partition(b"\r\n\r\n")
        length = _content_length(head)
        if not found or len(rest) < length:
            return
        stream.unread = bytearray(rest[length:])
        stream.arrived_s = reading.read_s if reading.stamp_s is None else reading.stamp_s
        self._answer(stream, is_post=head.startswith(b"POST"), body=rest[:length])

    def _answer(self, stream: _Stream, *, is_post: bool, body: bytes) -> None:
        asked = _parse(body) if is_post else {}
        if not is_post:
            self._write(stream, _json_reply({"object": "list", "data": [{"id": MODEL}]}))
        elif not asked.get("stream"):
            message = {"role": "assistant", "content": "null"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._write(stream, _json_reply({"object": "chat.completion", "choices": [choice]}))
        else:
            key = asked.get("max_tokens")
            stream.key, stream.sent_s = key if isinstance(key, int) else 0, []
            if self._write(stream, HEAD):
                self._plan(stream, stream.arrived_s + self._first_s)

    def _plan(self, stream: _Stream, due_s: float) -> None:
        self._num_planned += 1
        heapq.heappush(self._due, (due_s, self._num_planned, stream))

    def _write_due(self, now_s: float) -> None:
        """Write every chunk that was due at `now_s`; each plans the one after it."""
        while self._due and self._due[0][0] <= now_s:
            due_s, _, stream = heapq.heappop(self._due)
            is_last = len(stream.sent_s) + 1 == self._num_chunks
            sent_ns = time.monotonic_ns()
            if not self._write(stream, self._texts[is_last] % sent_ns):
                continue
            stream.sent_s.append(sent_ns / 1e9)
            if not is_last:
                self._plan(stream, due_s + self._gap_s)
            elif self._write(stream, self._end) and self._is_kept:
                self.served.append(
                    Served(key=stream.key, arrived_s=stream.arrived_s, sent_s=stream.sent_s)
                )

    def _write(self, stream: _Stream, data: bytes) -> bool:
        """Write in one go; a client that leaves no room for that is cut off."""
        try:
            is_whole = stream.connection.send(data) == len(data)
        except OSError:
            is_whole = False
        if not is_whole:
            self._drop(stream)
        return is_whole

    def _drop(self, stream: _Stream) -> None:
        if stream.connection.fileno() >= 0:
            self._selector.unregister(stream.connection)
            stream.connection.close()


def _chunk_text(num_bytes: int, *, is_last: bool) -> bytes:
    """Return a chunk with a place for its send time, `num_bytes` with all framing where it fits."""
    ending = b'"length"' if is_last else b"null"
    text = (
        b'data: {"id":"null","object":"chat.completion.chunk","model":"null","choices":[{"index":0,'
        b'"delta":{"content":"null "},"finish_reason":%s}],"sent_ns":%%20d,"pad":"%s"}\n\n'
    )
    bare = len(text % (ending, b"") % 0)
    framed = text % (ending, b"x" * max(num_bytes - bare - 7, 0))
    return b"%x\r\n%s\r\n" % (len(framed % 0), framed)


def _ask_for_stamps(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # not Linux: the time of reading has to do
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def _wall_ns(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = TIMESPEC.unpack_from(payload)
            return int(seconds * 1_000_000_000 + nanoseconds)
    return None


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0


def _parse(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _json_reply(document: dict[str, Any]) -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def main(arguments: list[str]) -> int:
    """Serve as the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m teardown.load.null_server")
    parser.add_argument("--first-s", type=float, default=0.02, help="request to first chunk")
    parser.add_argument("--gap-s", type=float, default=0.025, help="chunk to chunk")
    parser.add_argument("--chunks", type=int, default=64, help="chunks of one answer")
    parser.add_argument("--chunk-bytes", type=int, default=300, help="one chunk on the wire")
    parser.add_argument("--core", type=int, help="run on this core alone, and promptly")
    parser.add_argument("--log", type=Path, help="serve until standard input ends, then write this")
    asked = parser.parse_args(arguments)
    if asked.chunks < 1 or min(asked.first_s, asked.gap_s) < 0:
        parser.error("an answer has at least one chunk, and no time is negative")
    if asked.core is not None:
        try:
            os.sched_setaffinity(0, {asked.core})
        except OSError as error:
            parser.error(f"this process may not run on core {asked.core}: {error.strerror}")
        run_promptly()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = NullServer(
        first_s=asked.first_s,
        gap_s=asked.gap_s,
        num_chunks=asked.chunks,
        chunk_bytes=asked.chunk_bytes,
    )
    if asked.log is not None:
        server.keep_until_end_of(sys.stdin.buffer)
    sys.stdout.write(f"http://127.0.0.1:{server.port}/v1\n")
    sys.stdout.flush()
    gc.freeze()
    gc.disable()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()
    server.close()
    if asked.log is not None:
        rows = [[s.key, s.arrived_s, s.sent_s] for s in server.served]
        asked.log.write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
