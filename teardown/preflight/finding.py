"""One check of the preflight, and how the checks are printed."""

import itertools
import textwrap
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]
MARKS: dict[Level, str] = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
ORDER: tuple[Level, ...] = ("ok", "warn", "fail")
WIDTH = 110
INDENT = "      "


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was found, what it will cost the measurement, and in `fix` what to do."""

    name: str
    level: Level
    text: str
    fix: str = ""


def render(findings: list[Finding]) -> str:
    """Return the checks for a terminal, the worst last; those that say the same share a line."""
    ordered = sorted(findings, key=lambda finding: ORDER.index(finding.level))
    lines: list[str] = []
    for (level, text), group in itertools.groupby(ordered, key=lambda f: (f.level, f.text)):
        alike = list(group)
        names = ", ".join(finding.name for finding in alike)
        lines += _wrapped(f"{MARKS[level]}  {names}: {text}", INDENT)
        if alike[0].fix:
            lines += _wrapped(f"{INDENT}-> {alike[0].fix}", f"{INDENT}   ")
    return "\n".join(lines)


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=indent,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )


def seconds(value: float) -> str:
    """Return a time with three figures, in ms below a second."""
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"
