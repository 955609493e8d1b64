"""No more requests a second than the client allows, whatever the users would like.

A request that is held back is intended for the moment at which it may go: the limit is part of the
load that was asked, not a delay of the stack or of ours.
"""


class Pace:
    """Hands out moments that lie at least 1 / `most_per_s` seconds apart; None: no limit."""

    def __init__(self, most_per_s: float | None) -> None:
        self._step_s = 0.0 if most_per_s is None else 1.0 / most_per_s
        self._next_s = float("-inf")

    def take(self, wanted_s: float) -> float:
        """Return the first free moment that is not before `wanted_s`."""
        taken_s = max(wanted_s, self._next_s)
        self._next_s = taken_s + self._step_s
        return taken_s
