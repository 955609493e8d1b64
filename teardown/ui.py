"""What a person sees while a verb works: steps, one progress line, time left; on standard error."""

import sys
import time
from typing import TextIO

# Without a terminal a line is printed this often, so that a log shows that work goes on.
HEARTBEAT_S = 15.0
# Before the first run is made nobody knows how long one takes.
FIRST_GUESS_S = 20.0


class Console:
    """Steps and progress on `stream`; a live line on a terminal, heartbeat lines elsewhere.

    The time left is the number of runs still to make times what a run has taken so far, with
    everything around it; `plan_runs` says how many, `run_made` counts one.
    """

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._quiet = quiet
        self._open_line = False
        self._last_beat = 0.0
        self._started = time.monotonic()
        self._runs_left = 0
        self._runs_made = 0
        self._ends_at: float | None = None

    def plan_runs(self, number: int) -> None:
        """Say how many runs are still to be made, those of a trial included."""
        self._runs_left = number
        self._expect()

    def run_made(self) -> None:
        """Count one run as made."""
        self._runs_made += 1
        self._runs_left = max(0, self._runs_left - 1)
        self._expect()

    def _expect(self) -> None:
        now = time.monotonic()
        made = self._runs_made
        each_s = (now - self._started) / made if made else FIRST_GUESS_S
        self._ends_at = now + self._runs_left * each_s if self._runs_left else None

    def step(self, text: str) -> None:
        """Begin a step: one line that stays."""
        self._write(f"{self._clock()}  {text}")

    def say(self, text: str) -> None:
        """Write a result of the present step."""
        self._write("\n".join(f"       {line}" for line in text.splitlines()))

    def progress(self, text: str) -> None:
        """Show how far the present step is, with the time left."""
        now = time.monotonic()
        line = f"       {text}{self._left()}"
        if self._quiet:
            return
        if self._live:
            self._stream.write(f"\r\x1b[2K{line}")
            self._stream.flush()
            self._open_line = True
        elif now - self._last_beat >= HEARTBEAT_S:
            self._last_beat = now
            print(line, file=self._stream, flush=True)

    def _write(self, line: str) -> None:
        if self._quiet:
            return
        if self._open_line:
            self._stream.write("\r\x1b[2K")
            self._open_line = False
        self._last_beat = time.monotonic()
        print(line, file=self._stream, flush=True)

    def _clock(self) -> str:
        return _minutes(time.monotonic() - self._started)

    def _left(self) -> str:
        if self._ends_at is None:
            return ""
        left = self._ends_at - time.monotonic()
        return f" · about {_minutes(left).strip()} min left" if left > 0 else " · nearly done"


def _minutes(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 60:2d}:{whole % 60:02d}"
