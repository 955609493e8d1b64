"""The stream client: one request in, its bytes and stamps out, connections kept and reused.

While a reply arrives, only HTTP's framing is read (httptools); events and JSON are looked at after
it has ended. A kept-alive connection that the server closed while it was idle is replaced in
silence, but only if nothing of a reply had come: that request was never answered, and is sent once.
"""

import time
from collections.abc import Callable
from typing import Final

import gevent
import httptools

from teardown.load.clock import StampClock
from teardown.load.endpoint import Endpoint
from teardown.load.exchange import Exchange
from teardown.load.reply import read_reply
from teardown.load.wire import StampKeeper, Wire

__all__ = ["Aborted", "Client", "Endpoint"]

# A kept-alive connection closed within that time of the send had been closed while it was idle (its
# end and the request crossed on the way); later, the server had the request and dropped it.
RESEND_WITHIN_S: Final = 1.0


class Aborted(BaseException):
    """Thrown into a request that must stop now; not an Exception, so that nobody swallows it."""


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
            f"{self._endpoint.head(path)}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{self._head}\r\n"
        )
        return head.encode("latin-1", errors="replace") + body

    def _post(self, exchange: Exchange, request: bytes, on_sent: Callable[[float], None]) -> None:
        wire = self._take_idle()
        if wire is not None:
            try:
                self._exchange(wire, exchange, request, on_sent)
            except (ConnectionResetError, BrokenPipeError):
                if exchange.num_reads or not _was_idle(exchange):
                    raise
            if exchange.num_reads:
                return
            if not _was_idle(exchange):
                exchange.ending = "closed"
                return
            exchange.retries += 1
            exchange.sent_s = None
        wire = self._endpoint.open(self.clock)
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
            is_reusable = read_reply(wire, exchange)
        finally:
            if is_reusable:
                self._idle.append(wire)
            else:
                wire.close()


def _was_idle(exchange: Exchange) -> bool:
    return time.monotonic() - (exchange.sent_s or 0.0) <= RESEND_WITHIN_S
