"""How a stack is touched: every start, change and question goes through a Target."""

from pathlib import Path
from typing import Protocol

from teardown.engines.protocol import Engine
from teardown.records import Options, Stack


class Target(Protocol):
    """One client stack. Rights come from `access`; what is not granted raises FeatureMissing."""

    @property
    def url(self) -> str:
        """The base URL of the stack; ends in /v1."""

    @property
    def model(self) -> str:
        """The name that requests use."""

    @property
    def can_restart(self) -> bool:
        """True when options may be changed: access.restart grants it, and the kind is able to."""

    @property
    def engine(self) -> Engine:
        """The engine that serves."""

    def recover(self) -> list[str]:
        """Put back the original configuration after a killed kit; say what was done."""

    def start(self) -> None:
        """Have the stack running and healthy with its present options; no-op where it is."""

    def stop(self) -> None:
        """Stop what the kit started: drain, SIGTERM, SIGKILL by deadline. Nothing else."""

    def apply(self, options: Options) -> None:
        """Run the stack with exactly `options`; EngineFailed when it does not come up so."""

    def restore(self) -> None:
        """Run (or leave ready to run) the original options; called on any exit."""

    def read_back(self) -> Stack:
        """Return the stack as it runs, with the options that it says are in force."""

    def original(self) -> Stack:
        """Return the stack as the client had it."""

    def died(self) -> str | None:
        """Return one sentence when an engine that the kit runs ended by itself; else None."""

    def pid(self) -> int | None:
        """Return the engine's process id where the kit can see it."""

    def log_text(self) -> str:
        """Return the engine's log since its last start; empty where it cannot be read."""

    def log_path(self) -> Path | None:
        """Return the file of the engine's log, where there is one."""

    def metrics_urls(self) -> list[str]:
        """Return one metrics URL per replica; empty where metrics are not granted or absent."""
