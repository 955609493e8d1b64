"""What a master and its workers say to each other, and where they meet.

They travel as custom messages of Locust's runners. The master repeats its state in every beat, so
that a lost one does no harm; a worker repeats what was not acknowledged. No message carries a key:
a worker takes it from its own environment.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from teardown.errors import UsageError
from teardown.load.config import LoadResult

PROTOCOL: Final = 1  # both sides must have the same
DEFAULT_PORT: Final = 5557  # Locust's own
BEAT_EVERY_S: Final = 0.5
# So long a silence during a run means that the other side is gone. A worker that hears nothing
# stops by itself, so that nobody loads a server without being watched.
LOST_AFTER_S: Final = 4.0
# Before the run a side may be busy reading a schedule of a million requests.
LOST_BEFORE_START_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Worker: here I am."""

    protocol: int
    version: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Master: you cannot take part, because of `text`."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Master: your share. config: a LoadConfig whose paths mean nothing to the worker; schedule
    (JSON) and prompts (JSON Lines) are compressed with zlib.
    """

    config: dict[str, Any]
    schedule: bytes
    prompts: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Worker: `total` requests can be sent as soon as the start is known."""

    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Master: everything that a worker must know now.

    sent_s: the master's monotonic clock. start_s: the run's start on the worker's clock. taken:
    the newest batch of lines that is on the master's disk with all before it. halt: stop, and why.
    is_over: nothing more is taken, everybody may leave. more_runs: another run follows.
    """

    sent_s: float
    start_s: float | None = None
    taken: int = 0
    halt: str | None = None
    is_over: bool = False
    more_runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """Worker: the answer to one beat, at once. worker_s: the worker's monotonic clock."""

    sent_s: float
    worker_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Worker: lines of the journal. `number` counts its batches from 1."""

    number: int
    lines: list[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Worker: nothing more will be sent; `last` is the number of the last batch."""

    last: int
    result: LoadResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Worker: I cannot take part; text and exit code as of the error that says why."""

    text: str
    exit_code: int


Message = Hello | Refused | Work | Ready | Beat | Pulse | Lines | Done | Failed
FROM_WORKER: Final = (Hello, Ready, Pulse, Lines, Done, Failed)
FROM_MASTER: Final = (Refused, Work, Beat)
M = TypeVar("M")


def name_of(kind: type) -> str:
    """Return the name under which Locust carries messages of `kind`."""
    return f"teardown.{kind.__name__.lower()}"


def to_data(message: Message) -> dict[str, Any]:
    """Return `message` as what Locust can carry."""
    data: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    return data


def from_data(kind: type[M], data: Any) -> M:
    """Return the message in `data`; msgspec.ValidationError where it is not of `kind`."""
    return msgspec.convert(data, kind, builtin_types=(bytes,))


class Place(NamedTuple):
    """Where master and workers meet; an IPv6 address stands in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def place_of(text: str) -> Place:
    """Return the place that `text`, HOST[:PORT], names; UsageError where it names none."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} is not HOST or HOST:PORT: {error}") from error
    if not host or parts.path or parts.query or parts.username is not None or port == 0:
        raise UsageError(f"{text!r} is not HOST or HOST:PORT, such as 10.0.0.7:{DEFAULT_PORT}")
    return Place(f"[{host}]" if ":" in host else host, DEFAULT_PORT if port is None else port)
