"""The probe of an endpoint: at most six small requests within ten seconds, in a process of its own.

The requests go through the stream client of measured runs, so that what the probe sees is what a
run will see. This module starts the process and imports nothing of gevent.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from typing import ClassVar, Final

import msgspec

from teardown.errors import TargetError, TeardownError, UsageError
from teardown.load.priority import Priority
from teardown.load.probe_reply import ReplyFacts, ReplyName

MAX_REQUESTS: Final = 6
MAX_TOKENS: Final = 32
BUDGET_S: Final = 10.0
# How long a connection is left alone, to see whether the server keeps it.
IDLE_S: Final = 1.0
START_S: Final = 20.0  # importing the client on a busy host, and the end of the process
EXIT_ERRORS: Final[dict[int, type[TeardownError]]] = {2: UsageError, 3: TargetError}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """What to ask; it goes to the process by a pipe, so that a key in `headers` is seen nowhere.

    has_cache_salt: the engine takes the salt as a field of the body, not before the prompt.
    """

    SCHEMA: ClassVar[str] = "teardown.probe_plan/1"

    url: str
    model: str
    headers: dict[str, str] = field(default_factory=dict)
    has_cache_salt: bool = False
    budget_s: float = BUDGET_S
    idle_s: float = IDLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What came back. lag_*_s: read time less kernel stamp; None without stamps or without reads.

    clock_moved_s: how far REALTIME - MONOTONIC moved meanwhile. is_kept_after_idle: None where the
    time did not suffice.
    """

    SCHEMA: ClassVar[str] = "teardown.probe_report/1"

    replies: list[ReplyFacts]
    elapsed_s: float
    clock_moved_s: float
    num_reads: int
    lag_p50_s: float | None
    lag_max_s: float | None
    priority: Priority
    num_connections: int
    is_kept_after_idle: bool | None = None

    def reply(self, name: ReplyName) -> ReplyFacts | None:
        """Return the reply called `name`; None where it was not asked for."""
        return next((reply for reply in self.replies if reply.name == name), None)


def run_probe(plan: ProbePlan, python: str = sys.executable) -> ProbeReport:
    """Probe the endpoint of `plan`; a failed request is in the report.

    UsageError and TargetError as the process reports them (an address that is none, an unknown
    host), TeardownError for anything else.
    """
    command = [python, "-m", "teardown.load.probe_process"]
    try:
        done = subprocess.run(
            command,
            input=msgspec.json.encode(plan),
            capture_output=True,
            timeout=plan.budget_s + START_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TeardownError(f"the probe did not end within {error.timeout:g} s") from error
    if done.returncode:
        text = done.stderr.decode("utf-8", errors="replace").strip()
        kind = EXIT_ERRORS.get(done.returncode, TeardownError)
        raise kind(text.rpartition("\n")[2] or f"the probe ended with code {done.returncode}")
    try:
        return msgspec.json.decode(done.stdout, type=ProbeReport)
    except msgspec.DecodeError as error:
        raise TeardownError(f"the probe left no report: {error}") from error
