"""Every failure that a user can meet, as one tree; the class decides the exit code.

    TeardownError            1  a fault of the kit itself
    ├── UsageError           2  a command line or a file that cannot be read as meant
    ├── TargetError          3  the stack is unreachable, or a precondition does not hold
    │   ├── EngineFailed     3  an engine did not start, died, or does not run what was asked
    │   └── FeatureMissing   3  a verb, a package or a right that is not there
    ├── RunInvalid           4  a run whose numbers must not be used
    ├── GateNotMet           5  `--gate`, and `validate` with an error finding
    └── Interrupted        130  stopped by the user; what was measured is saved

A message says what happened, with which value, and what to do next.
"""

from typing import ClassVar


class TeardownError(Exception):
    """A fault of the kit itself; `has_document`: with --json, the one document is out already."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", *, has_document: bool = False) -> None:
        super().__init__(message)
        self.has_document = has_document


class UsageError(TeardownError):
    """A command line or a file that cannot be read as meant."""

    exit_code = 2


class TargetError(TeardownError):
    """The stack is unreachable, or a precondition does not hold."""

    exit_code = 3


class EngineFailed(TargetError):
    """An engine did not start, died, or does not run what was asked."""


class FeatureMissing(TargetError):
    """A verb, a package or a right that is not there."""


class RunInvalid(TeardownError):
    """A run whose numbers must not be used."""

    exit_code = 4


class GateNotMet(TeardownError):
    """A gate that the user asked for is not met."""

    exit_code = 5


class Interrupted(TeardownError):
    """Stopped by the user; what was measured is saved."""

    exit_code = 130
