"""The stream client: one request in, its bytes and stamps out, connections kept and reused.

While a reply arrives, only HTTP's framing is read (httptools); events and JSON are looked at after
it has ended. A kept-alive connection that the server closed while it was idle is replaced in
silence, but only if nothing of a reply had come: that request was never answered, and is sent once.
"""

import ssl
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import gevent
import httptools

from teardown.errors import UsageError
from teardown.load.clock import StampClock
from teardown.load.exchange import BodyRead, Exchange
from teardown.load.wire import Address, StampKeeper, Wire, resolve

DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Aborted(BaseException):
    """Thrown into a request that must stop now; not an Exception, so that nobody swallows it."""


class Endpoint:
    """Where requests go, resolved once. UsageError when the URL is not http or https."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise UsageError(f"{url!r} is not an http or https address")
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        self.is_tls = parts.scheme == "https"
        self.base_path = parts.path.rstrip("/")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.host = host if port == DEFAULT_PORTS[parts.scheme] else f"{host}:{port}"
        self.address: Address = resolve(parts.hostname, port, is_tls=self.is_tls)
        self.context = ssl.create_default_context() if self.is_tls else None


class Client:
    """Sends requests over a pool of kept-alive connections, at most one per request in flight.

    Connections never outnumber the requests in flight at their peak. `post` calls `on_sent` with
    the monotonic time just before the first byte goes.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        headers: dict[str, str],
        timeout_s: float,
        clock: StampClock | None = None,
    ) -> None:
        self.clock = clock or StampClock()
        self._keeper = StampKeeper()
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._idle: list[Wire] = []
        self._in_flight: set[gevent.Greenlet] = set()
        self.num_connections = 0
        self.peak_in_flight = 0

    @property
    def num_in_flight(self) -> int:
        """Requests that are being sent or answered now."""
        return len(self._in_flight)

    def abort_all(self) -> None:
        """Stop every request in flight; each returns from `post` as aborted."""
        gevent.killall(list(self._in_flight), Aborted, block=False)

    def post(self, path: str, body: bytes, on_sent: Callable[[float], None]) -> Exchange:
        """Send one request and return what came back; every failure is in the exchange."""
        exchange = Exchange()
        greenlet = gevent.getcurrent()
        self._in_flight.add(greenlet)
        self.peak_in_flight = max(self.peak_in_flight, self.num_in_flight)
        try:
            with gevent.Timeout(self._timeout_s):
                self._post(exchange, self._request(path, body), on_sent)
        except gevent.Timeout:
            exchange.ending = "timeout"
            exchange.detail = f"{self._timeout_s:g} s"
        except Aborted:
            exchange.ending = "aborted"
        except ConnectionRefusedError:
            exchange.ending = "connection_refused"
        except (ConnectionResetError, BrokenPipeError, ConnectionAbortedError) as error:
            exchange.ending = "reset" if exchange.sent_s is not None else "unreachable"
            exchange.detail = error.strerror or str(error)
        except OSError as error:  # ssl.SSLError is one
            exchange.ending = "unreachable" if exchange.sent_s is None else "closed"
            exchange.detail = error.strerror or str(error)
        except httptools.HttpParserError as error:
            exchange.ending = "not_http"
            exchange.detail = str(error)
        finally:
            self._in_flight.discard(greenlet)
        return exchange

    def close(self) -> None:
        """Close every idle connection; nothing can be sent any more."""
        self._keeper.close()
        while self._idle:
            self._idle.pop().close()

    def _request(self, path: str, body: bytes) -> bytes:
        head = (
            f"POST {self._endpoint.base_path}{path} HTTP/1.1\r\nHost: {self._endpoint.host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{self._head}\r\n"
        )
        return head.encode("latin-1", errors="replace") + body

    def _post(self, exchange: Exchange, request: bytes, on_sent: Callable[[float], None]) -> None:
        wire = self._take_idle()
        if wire is not None:
            try:
                self._exchange(wire, exchange, request, on_sent)
            except (ConnectionResetError, BrokenPipeError):
                if exchange.num_reads:
                    raise
            if exchange.num_reads or exchange.ending != "failed":
                return
            exchange.retries += 1
        wire = Wire(self._endpoint.address, self.clock, self._endpoint.context)
        self.num_connections += 1
        exchange.connect_s = wire.connect_s
        self._exchange(wire, exchange, request, on_sent)
        if exchange.ending == "failed":
            exchange.ending = "closed"

    def _take_idle(self) -> Wire | None:
        while self._idle:
            wire = self._idle.pop()
            if wire.is_usable():
                return wire
            wire.close()
        return None

    def _exchange(
        self, wire: Wire, exchange: Exchange, request: bytes, on_sent: Callable[[float], None]
    ) -> None:
        """Send and read to the end; `ending` stays "failed" if the server closed without a byte."""
        is_reusable = False
        try:
            exchange.sent_s = time.monotonic()
            on_sent(exchange.sent_s)
            wire.send(request)
            is_reusable = _read_reply(wire, exchange)
        finally:
            if is_reusable:
                self._idle.append(wire)
            else:
                wire.close()


def _read_reply(wire: Wire, exchange: Exchange) -> bool:
    """Read one reply into `exchange`; return whether its connection may be used again."""
    reply = _Reply()
    parser = reply.parser
    while not reply.is_complete:
        data, (read_s, stamp_s) = wire.read()
        if data:
            exchange.num_reads += 1
            if stamp_s is not None:
                exchange.lags_s.append(read_s - stamp_s)
        arrived_s = read_s if stamp_s is None else stamp_s
        if not data:
            if exchange.num_reads:
                # without a length or chunks, the end of the connection is the end of the body
                exchange.ending = "complete" if reply.ends_at_close else "closed"
                exchange.closed_s = arrived_s if reply.ends_at_close else None
            return False
        parser.feed_data(data)
        if reply.has_head:
            exchange.http_status = parser.get_status_code()
            exchange.content_type = reply.content_type
        exchange.reads.append(BodyRead(arrived_s, stamp_s is not None, reply.take_body()))
    exchange.closed_s = exchange.reads[-1].stamp_s
    exchange.ending = "complete"
    return reply.keeps_alive


class _Reply:
    """Collects what httptools calls back with."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.keeps_alive = False
        self.has_head = False
        self.is_complete = False
        self.content_type = ""
        self._has_length = False
        self._body: list[bytes] = []

    @property
    def ends_at_close(self) -> bool:
        """True when nothing but the end of the connection ends the body."""
        return self.has_head and not self._has_length

    def take_body(self) -> bytes:
        body, self._body = b"".join(self._body), []
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"content-type":
            self.content_type = value.decode("latin-1").lower()
        elif lowered in (b"content-length", b"transfer-encoding"):
            self._has_length = True

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, data: bytes) -> None:
        self._body.append(bytes(data))

    def on_message_complete(self) -> None:
        if self.parser.get_status_code() < 200:  # a 1xx head comes before the reply itself
            self.has_head = self._has_length = False
            return
        self.is_complete = True
        self.keeps_alive = bool(self.parser.should_keep_alive())  # llhttp forgets it afterwards
