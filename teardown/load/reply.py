"""One HTTP reply is read to its end; what was received before damage is kept, however it is split.

Only the framing is looked at (httptools). Bytes behind the end of a reply belong to nobody: they
change nothing about it, and its connection is not used again.
"""

from typing import Final

import httptools

from teardown.load.exchange import BodyRead, Exchange
from teardown.load.wire import Wire

CHUNK_END: Final = b"\r\n"  # goes out with its chunk
SWITCHING: Final = "the server switched to another protocol"


def read_reply(wire: Wire, exchange: Exchange) -> bool:
    """Read one reply into `exchange`; return whether its connection may be used again.

    `ending` stays as it is where the server closed before any byte. HttpParserError where the
    bytes are not HTTP.
    """
    reply = _Reply()
    while not reply.is_complete:
        data, (read_s, stamp_s), is_drained = wire.read()
        arrived_s = read_s if stamp_s is None else stamp_s
        if not data:
            if exchange.num_reads:
                # without a length or chunks, the end of the connection is the end of the body
                exchange.ending = "complete" if reply.ends_at_close else "closed"
                exchange.closed_s = arrived_s if reply.ends_at_close else None
            return False
        exchange.num_reads += 1
        if stamp_s is not None:
            exchange.lags_s.append(read_s - stamp_s)
        try:
            reply.feed(data)
        finally:
            if reply.status is not None:
                exchange.http_status = reply.status
                exchange.content_type = reply.content_type
            body = reply.take_body()
            is_last = is_drained and data.endswith((body, body + CHUNK_END))
            is_own = stamp_s is not None and is_last
            exchange.reads.append(BodyRead(arrived_s, is_own, body, is_drained))
    exchange.closed_s = exchange.reads[-1].stamp_s
    exchange.ending = "complete"
    return reply.keeps_alive


class _Reply:
    """Collects what httptools calls back with; `status` is None until the head is whole."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.keeps_alive = False
        self.is_complete = False
        self.status: int | None = None
        self.content_type = ""
        self._has_length = False
        self._body: list[bytes] = []

    @property
    def ends_at_close(self) -> bool:
        """True when nothing but the end of the connection ends the body."""
        return self.status is not None and not self._has_length

    def feed(self, data: bytes) -> None:
        """Parse more bytes; HttpParserError unless damage lies behind the end of the reply."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keeps_alive = False
            if isinstance(error, httptools.HttpParserUpgrade) and not self.is_complete:
                raise httptools.HttpParserError(SWITCHING) from error
            if not self.is_complete:
                raise

    def take_body(self) -> bytes:
        body, self._body = b"".join(self._body), []
        return body

    def on_message_begin(self) -> None:
        if self.is_complete:  # a second reply that nobody asked for
            self.keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_complete or self.status is not None:  # of nobody, or a trailer
            return
        lowered = name.lower()
        if lowered == b"content-type":
            self.content_type = value.decode("latin-1").lower()
        elif lowered == b"content-length":
            self._has_length = True
        elif lowered == b"transfer-encoding":
            self._has_length = self._has_length or b"chunked" in value.lower()

    def on_headers_complete(self) -> None:
        if not self.is_complete:
            self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        if not self.is_complete:
            self._body.append(bytes(data))

    def on_message_complete(self) -> None:
        if self.is_complete:
            return
        if self.status is not None and self.status < 200:  # a 1xx head comes before the reply
            self.status, self._has_length, self.content_type = None, False, ""
            return
        self.is_complete = True
        self.keeps_alive = bool(self._parser.should_keep_alive())  # llhttp forgets it afterwards
