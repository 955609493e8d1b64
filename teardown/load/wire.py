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
from typing import Final, NamedTuple

import gevent
from gevent import socket

from teardown.load.clock import Reading, StampClock

SO_TIMESTAMPNS: Final = 35  # asm-generic/socket.h; the socket module does not name it
TIMESPEC: Final = struct.Struct("@qq")
ANCILLARY_BYTES: Final = 64
READABLE: Final = 1
READ_BYTES: Final = 16384


class Address(NamedTuple):
    """A resolved endpoint; `server_name` is what TLS checks, None for plain HTTP."""

    family: int
    sockaddr: tuple[str | int, ...]
    server_name: str | None


class StampedRead(NamedTuple):
    """The bytes of one read (none at the end of the stream) and its times."""

    data: bytes
    reading: Reading


def resolve(host: str, port: int, *, is_tls: bool) -> Address:
    """Resolve `host` once, so that no name is looked up while the run goes on; OSError if none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, sockaddr = found[0]
    return Address(family, sockaddr, host if is_tls else None)


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
    """One open connection; `connect_s` is how long opening took, TLS included."""

    def __init__(self, address: Address, clock: StampClock, context: ssl.SSLContext | None) -> None:
        self._clock = clock
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        self._hub = gevent.get_hub()
        self._readable = self._hub.loop.io(self._socket.fileno(), READABLE)
        self._tls: _Tls | None = None
        started_s = time.monotonic()
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.has_kernel_stamps = _ask_for_stamps(self._socket)
            self._socket.connect(address.sockaddr)
            if context is not None:
                self._tls = _Tls(context, address.server_name)
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
                return StampedRead(plain, raw.reading)

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
        data, ancillary, _, _ = self._socket.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        wall_ns = None
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = TIMESPEC.unpack_from(payload)
                wall_ns = seconds * 1_000_000_000 + nanoseconds
        return StampedRead(data, self._clock.read(wall_ns))

    def _shake_hands(self, tls: "_Tls") -> None:
        while not tls.shake_hands():
            if tls.pending:
                self._socket.sendall(tls.take_pending())
            raw = self._read_raw()
            if not raw.data:
                raise ConnectionResetError("the server closed the connection during TLS")
            tls.feed(raw.data)
        if tls.pending:
            self._socket.sendall(tls.take_pending())


class _Tls:
    """One TLS session over memory buffers."""

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=server_name
        )
        self.is_closed = False

    @property
    def pending(self) -> int:
        """Bytes that wait to be sent."""
        return self._outgoing.pending

    def take_pending(self) -> bytes:
        return self._outgoing.read()

    def feed(self, data: bytes) -> None:
        self._incoming.write(data)

    def shake_hands(self) -> bool:
        """Go on with the handshake; False: more bytes are needed."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def encrypt(self, data: bytes) -> bytes:
        self._session.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self._incoming.write(data)
        plain = bytearray()
        try:
            while True:
                piece = self._session.read(READ_BYTES)
                if not piece:
                    self.is_closed = True
                    break
                plain += piece
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_closed = True
        return bytes(plain)


def _ask_for_stamps(connection: socket.socket) -> bool:
    """Switch kernel stamps on; False where the system has none in this form."""
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return False
    try:
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True
