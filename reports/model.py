"""The view model: what the templates loop over. Every text here is final; none is computed later.

A template asks only "is it there" and "what does it say". All numbers come through `format.py`.
"""

from dataclasses import dataclass
from typing import Literal

from reports.format import Tone

# Three lines of the first screen at its usual size.
LONG_SENTENCE = 170

Light = Literal["valid", "warnings", "invalid", "simulated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A short line: what, and what is to be said of it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityBar:
    """Whether the numbers may be believed, in capitals, and why or why not."""

    light: Light
    label: str
    reasons: list[str]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One of the three numbers; `change` is empty where only one side was measured."""

    label: str
    before: str
    after: str
    change: str
    tone: Tone
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """What limits the stack, in plain words; `name` says so when nothing is named."""

    name: str
    share: str
    cause: str
    evidence: list[Item]
    ruled_out: list[Item]


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A short list on the first screen; `more` counts what only the later section shows."""

    title: str
    items: list[Item]
    more: int
    anchor: str
    empty: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstScreen:
    """What a reader sees before scrolling, in half a minute."""

    outcome: str
    sentence: str
    withheld: bool
    validity: ValidityBar
    tiles: list[Tile]
    bottleneck: Bottleneck
    briefs: list[Brief]
    scope: list[Item]

    @property
    def is_long(self) -> bool:
        """True when the sentence needs smaller letters to stand on the first screen whole."""
        return len(self.sentence) > LONG_SENTENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the report; `marks` names rows that stand out, by index."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""
    marks: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One question, its picture as a Vega-Lite specification, and the same numbers as a table."""

    chart: str
    question: str
    description: str
    spec: dict[str, object]
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRow:
    """One candidate: what was expected beside what was measured."""

    candidate: str
    title: str
    lever: str
    predicted: str
    screen: str
    proof: str
    oracle: str
    decision: str
    decided: Literal["kept", "rejected", "no_change", "failed", "pending", "untried"]
    risk: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One change in full: kept, or proposed."""

    candidate: str
    title: str
    decision: str
    diff: list[list[str]]
    facts: list[Item]
    oracle: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Tables under one heading; `lead` is one paragraph. Folded tables open on demand."""

    anchor: str
    title: str
    lead: list[str]
    tables: list[Table]
    folded: list[Table]

    @property
    def link(self) -> str:
        """The one or two words by which the contents name the section."""
        return self.anchor.replace("-", " ").capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report."""

    client: str
    kit_version: str
    first: FirstScreen
    missing: list[Item]
    candidates: list[CandidateRow]
    charts: list[Chart]
    findings_title: str
    findings_empty: str
    findings: list[Finding]
    sections: list[Section]
    glossary: list[list[str]]
