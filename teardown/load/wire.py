"""Connections whose reads carry the kernel's receive stamp, plain or under TLS.

Linux gives the wall-clock arrival of the newest segment of a read (SO_TIMESTAMPNS); elsewhere the
stamp of a read is the time at which it returned. TLS runs over memory buffers, so that the stamps
of the records below it survive.
"""

import contextlib
import ssl
import struct
import sys
import time
from errno import ECONNABORTED
from operator import index
from typing import Final, NamedTuple

import gevent
from gevent import socket

from teardown.load.clock import Reading, StampClock
from teardown.load.tls import Tls

SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h; the socket module does not name it
TIMESPEC: Final = struct.Struct("@qq")
ANCILLARY_BYTES: Final = 64
READABLE: Final = 1
READ_BYTES: Final = 16384
TUNNEL_BYTES: Final = 65536  # an answer to CONNECT that is longer is none


class Address(NamedTuple):
    """One resolved address of a host."""

    family: int
    sockaddr: tuple[str | int, ...]


class Security(NamedTuple):
    """TLS of a connection: `server_name` is what is checked. `connect_head`: the request by which
    a proxy opens the way to it, None without a proxy.
    """

    context: ssl.SSLContext
    server_name: str
    connect_head: bytes | None = None


class StampedRead(NamedTuple):
    """The bytes of one read (none at the end of the stream) and its times.

    `is_drained`: nothing was left behind. Linux joins segments that wait, and the newest one's
    stamp is then that of all, so that a part of them may have come long before it.
    """

    data: bytes
    reading: Reading
    is_drained: bool = True


def resolve(host: str, port: int) -> list[Address]:
    """Resolve `host` once, so that no name is looked up while the run goes on; OSError if none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [Address(family, sockaddr) for family, _, _, _, sockaddr in found]


class StampKeeper:
    """Keeps the kernel stamping while it lives.

    Linux stamps packets only while some socket asks for it, and begins a moment after the first
    one asks: without a keeper, the first reads of a run would have no stamp.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        _ask_for_stamps(self._socket)

    def close(self) -> None:
        """Let the kernel stop."""
        self._socket.close()


class Wire:
    """One open connection; `connect_s` is how long opening took, a proxy's tunnel and TLS included.

    OSError where it cannot be opened; `strerror` says why.
    """

    def __init__(self, address: Address, clock: StampClock, security: Security | None) -> None:
        self._clock = clock
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        self._hub = gevent.get_hub()
        self._readable = self._hub.loop.io(self._socket.fileno(), READABLE)
        self._tls: Tls | None = None
        started_s = time.monotonic()
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.has_kernel_stamps = _ask_for_stamps(self._socket)
            self._socket.connect(address.sockaddr)
            if security is not None:
                if security.connect_head is not None:
                    self._open_tunnel(security.connect_head)
                self._tls = Tls(security.context, security.server_name)
                self._shake_hands(self._tls)
        except BaseException:
            self.close()
            raise
        self.connect_s = time.monotonic() - started_s

    def send(self, data: bytes) -> None:
        """Send all of `data`."""
        self._socket.sendall(data if self._tls is None else self._tls.encrypt(data))

    def read(self) -> StampedRead:
        """Wait for bytes and return them with their stamp; no bytes: the server has closed."""
        while True:
            raw = self._read_raw()
            if self._tls is None or not raw.data:
                return raw
            plain = self._tls.decrypt(raw.data)
            if self._tls.pending:
                self._socket.sendall(self._tls.take_pending())
            if plain or self._tls.is_closed:
                return StampedRead(plain, raw.reading, raw.is_drained)

    def is_usable(self) -> bool:
        """False when the server has closed or said something while nobody had asked."""
        try:
            self._socket.setblocking(False)
            return len(self._socket.recv(1, socket.MSG_PEEK)) < 0
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self._socket.setblocking(True)

    def close(self) -> None:
        """Close without waiting for anything."""
        self._readable.close()
        with contextlib.suppress(OSError):
            self._socket.close()

    def _read_raw(self) -> StampedRead:
        if not self.has_kernel_stamps:
            return StampedRead(self._socket.recv(READ_BYTES), self._clock.read(None))
        self._hub.wait(self._readable)  # a read that finds nothing costs more than a wait
        size = index(READ_BYTES)
        data, ancillary, _, _ = self._socket.recvmsg(size, ANCILLARY_BYTES)
        wall_ns = None
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = TIMESPEC.unpack_from(payload)
                wall_ns = seconds * 1_000_000_000 + nanoseconds
        return StampedRead(data, self._clock.read(wall_ns), len(data) < size)

    def _open_tunnel(self, connect_head: bytes) -> None:
        """Ask a proxy for the way to the server (RFC 9110, 9.3.6); TLS begins behind its answer."""
        self._socket.sendall(connect_head)
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self._socket.recv(1)  # not a byte more: what follows is the server's
            if not data or len(answer) > TUNNEL_BYTES:
                raise ConnectionAbortedError(ECONNABORTED, "the proxy gave no answer to CONNECT")
            answer += data
        status, _, reason = answer.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        if not status.startswith("HTTP/1.") or not reason.startswith("2"):
            raise ConnectionAbortedError(
                ECONNABORTED, f"the proxy refused to connect: {reason[:80]}"
            )

    def _shake_hands(self, tls: Tls) -> None:
        while not tls.shake_hands():
            if tls.pending:
                self._socket.sendall(tls.take_pending())
            raw = self._read_raw()
            if not raw.data:
                raise ConnectionResetError("the server closed the connection during TLS")
            tls.feed(raw.data)
        if tls.pending:
            self._socket.sendall(tls.take_pending())


def _ask_for_stamps(connection: socket.socket) -> bool:
    """Switch kernel stamps on; False where the system has none in this form."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return False
    try:
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True
