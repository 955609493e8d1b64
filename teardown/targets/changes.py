"""What differs between two sets of options."""

import json
from typing import NamedTuple

from teardown.records import Options
from teardown.records.stack import OptionValue


class Change(NamedTuple):
    """One option; None is the engine's default."""

    option: str
    before: OptionValue
    after: OptionValue

    def __str__(self) -> str:
        return f"{self.option} {json.dumps(self.before)} -> {json.dumps(self.after)}"


def changes(before: Options, after: Options) -> list[Change]:
    """Return the options whose value differs, by name."""
    return [
        Change(option, before.get(option), after.get(option))
        for option in sorted({*before, *after})
        if before.get(option) != after.get(option)
    ]
