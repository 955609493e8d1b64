"""What every lever answers: what it would change, and what it looked at and leaves alone."""

from typing import Protocol

from teardown.records import Candidate, LeftAlone
from tuning.context import PlanContext


class Lever(Protocol):
    """One kind of change. Both answers depend on the context alone, and on all of it."""

    name: str

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return the changes to try; empty where this engine or workload offers none."""

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return the settings that look odd but limit nothing, with the numbers that say so."""
