"""What a killed kit leaves behind for the next one: which server, with which options."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from teardown.engagement import write_atomic
from teardown.records import Options

SCHEMA = "teardown.target_state/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """Written whole before each change. original: the client's options; present: those asked last.

    pid and start_ticks name the server where one was started; kit_* the process that started it.
    """

    original: Options
    present: Options
    url: str
    port: int
    kit_pid: int
    kit_start_ticks: int | None
    pid: int | None = None
    start_ticks: int | None = None


def save(path: Path, state: TargetState) -> None:
    """Write `state`, whole or not at all."""
    write_atomic(path, json.dumps({"schema": SCHEMA, **asdict(state)}, indent=2) + "\n")


def load(path: Path) -> TargetState | None:
    """Return the state that was left; None when there is none, or none that can be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != SCHEMA:
            return None
        return TargetState(**document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
