"""Server-sent events are parsed on bytes, and the result does not depend on how reads are split.

The rules are those of the WHATWG standard (html.spec.whatwg.org, "Server-sent events"): lines end
in LF, CR or CRLF, a line that starts with a colon is a comment, one space after a field's colon is
dropped, several `data` lines are joined by LF, and an event without its blank line is not an event.
Times are seconds on the caller's clock.
"""

import re
from typing import Final, NamedTuple

LINE_END: Final = re.compile(rb"\r\n|\n|\r")
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
NEWLINE: Final = 0x0A


class Event(NamedTuple):
    """One event, and the bracket in which it arrived.

    The last byte of the event arrived after `previous_s` and not after `stamp_s`. `is_exact` says
    that it was the last byte of its read and no other event shares that read, so that `stamp_s` is
    its own arrival where the stamp is the kernel's.
    """

    data: str
    kind: str
    previous_s: float
    stamp_s: float
    is_exact: bool

    @property
    def width_s(self) -> float:
        """Width of the bracket; 0 where the stamp is the event's own."""
        return 0.0 if self.is_exact else self.stamp_s - self.previous_s


class SseParser:
    """Turns stamped reads into events; `opened_s` is the lower end of the first read's bracket."""

    def __init__(self, opened_s: float) -> None:
        self._stamp_s = opened_s
        self._partial = bytearray()
        self._data: list[str] = []
        self._kind = ""
        self._skip_newline = False
        self._is_first_line = True

    def feed(
        self, data: bytes, stamp_s: float, *, is_own_stamp: bool = True, is_drained: bool = True
    ) -> list[Event]:
        """Return the events that `data` completes; an empty read only moves the bracket.

        Where bytes were left behind (`is_drained` is False), the next read's may have come as early
        as these: the bracket's lower end stays.
        """
        previous_s = self._stamp_s
        if is_drained:
            self._stamp_s = stamp_s
        found: list[tuple[str, str]] = []
        start = 0
        if data and self._skip_newline:
            start = 1 if data[0] == NEWLINE else 0
            self._skip_newline = False
        ended_at = -1
        for end in LINE_END.finditer(data, start):
            line = data[start : end.start()]
            if self._partial:
                line = bytes(self._partial) + line
                self._partial.clear()
            start = end.end()
            event = self._take_line(line)
            if event is not None:
                found.append(event)
                ended_at = start
        self._partial += data[start:]
        if start == len(data) and data.endswith(b"\r"):
            self._skip_newline = True
        is_exact = is_own_stamp and len(found) == 1 and ended_at == len(data)
        return [Event(text, kind, previous_s, stamp_s, is_exact) for text, kind in found]

    def _take_line(self, line: bytes) -> tuple[str, str] | None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", errors="replace"))
        elif name == b"event":
            self._kind = value.removeprefix(b" ").decode("utf-8", errors="replace")
        return None  # comments have an empty name; id, retry and unknown fields carry no answer

    def _dispatch(self) -> tuple[str, str] | None:
        data, kind = self._data, self._kind
        self._data, self._kind = [], ""
        return ("\n".join(data), kind or "message") if data else None
