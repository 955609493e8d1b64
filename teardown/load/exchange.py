"""What happened on the wire for one request, before anybody has looked at what it means.

All times are seconds of the monotonic clock of the load process.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Ending = Literal[
    "complete",  # the reply ended as HTTP says it ends
    "closed",  # the server closed the connection before that
    "reset",  # the connection was reset
    "not_http",  # what came cannot be read as HTTP
    "timeout",
    "connection_refused",
    "unreachable",  # no connection: name not found, no route, TLS failed
    "aborted",  # we stopped it
    "failed",  # a fault of the kit itself
]


class BodyRead(NamedTuple):
    """The body bytes of one read of the socket; none where it carried only the head or framing.

    `is_own_stamp`: the stamp is the kernel's, and that of the last byte in `data`. It is neither
    where the kernel gave none, nor where framing came behind or bytes were left for the next read:
    then those are what was stamped. `is_drained`: no bytes were left.
    """

    stamp_s: float
    is_own_stamp: bool
    data: bytes
    is_drained: bool = True


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request and its reply as bytes and stamps.

    connect_s is None on a kept-alive connection; `sent_s` is None where nothing was sent. `lags_s`
    has read time less kernel stamp of every read that has one. `retries` counts kept-alive
    connections that turned out to be closed.
    """

    connect_s: float | None = None
    sent_s: float | None = None
    http_status: int | None = None
    content_type: str = ""
    reads: list[BodyRead] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    num_reads: int = 0
    closed_s: float | None = None
    ending: Ending = "failed"
    detail: str = ""
    retries: int = 0

    @property
    def body(self) -> bytes:
        """All body bytes so far."""
        return b"".join(read.data for read in self.reads)

    @property
    def last_byte_s(self) -> float | None:
        """Stamp of the last read that carried a byte of the body."""
        return next((read.stamp_s for read in reversed(self.reads) if read.data), None)
