"""What limits the stack, in plain words, with the evidence that carries it."""

from reports.format import MISSING, capitalised, percent, quantity
from reports.model import Bottleneck, Item, Section, Table
from reports.words import cause, time_class
from teardown.records import Attribution, Evidence

NUM_EVIDENCE = 2


def bottleneck(attribution: Attribution | None) -> Bottleneck:
    """Return what limits the stack, or say plainly that it is not known."""
    if attribution is None:
        return Bottleneck(
            name="Not diagnosed yet",
            share="",
            cause="No diagnosis is in the folder.",
            evidence=[],
            ruled_out=[],
        )
    confidence = f"confidence {percent(attribution.confidence)}"
    share = attribution.shares.get(attribution.time_class or "", 0.0)
    if attribution.abstained or attribution.time_class is None:
        name = "We cannot tell what limits this stack"
        share_text = confidence
        why = attribution.notes[0] if attribution.notes else "The evidence does not single one out."
    else:
        name = time_class(attribution.time_class).capitalize()
        share_text = f"{percent(share)} of the time that users wait, {confidence}"
        why = cause(attribution.cause) if attribution.cause else "No single cause stands out"
        why = f"{capitalised(why)}."
    if attribution.validity.verdict == "invalid":
        share_text = "from an invalid run: not to be relied on"
    return Bottleneck(
        name=name,
        share=share_text,
        cause=why,
        evidence=[_evidence(e) for e in strongest(attribution)],
        ruled_out=[
            Item(name=time_class(r.time_class), text=r.because) for r in attribution.ruled_out
        ],
    )


def strongest(attribution: Attribution) -> list[Evidence]:
    """Return the evidence that carries the diagnosis: for the cause, then the class, then any."""

    def rank(evidence: Evidence) -> int:
        wanted = (attribution.cause, attribution.time_class)
        return wanted.index(evidence.supports) if evidence.supports in wanted else len(wanted)

    return sorted(attribution.evidence, key=rank)[:NUM_EVIDENCE]


def _evidence(evidence: Evidence) -> Item:
    value = quantity(evidence.value, evidence.unit)
    return Item(name=f"{evidence.name.replace('_', ' ')}: {value}", text=evidence.says)


def diagnosis_section(attribution: Attribution | None) -> Section | None:
    """Return every piece of evidence, every cause it supports, and what is ruled out."""
    if attribution is None:
        return None
    found = bottleneck(attribution)
    evidence = Table(
        caption=f"Evidence from run {attribution.run}",
        columns=["What", "Value", "Source", "What it says", "Speaks for"],
        rows=[
            [
                e.name.replace("_", " "),
                quantity(e.value, e.unit),
                e.source,
                e.says,
                e.supports.replace("_", " ") or MISSING,
            ]
            for e in attribution.evidence
        ],
    )
    causes = Table(
        caption="Causes that the evidence supports, strongest first",
        columns=["Cause", "In plain words", "Removing it saves at most"],
        rows=[
            [name.replace("_", " "), cause(name), percent(saved)]
            for name, saved in attribution.causes.items()
        ],
    )
    ruled_out = Table(
        caption="Ruled out",
        columns=["Class", "Why"],
        rows=[[item.name, item.text] for item in found.ruled_out],
    )
    return Section(
        anchor="diagnosis",
        title="What limits the stack, and how we know",
        lead=[f"{found.name}: {found.share}. {found.cause}"],
        tables=[table for table in (evidence, causes, ruled_out) if table.rows],
        folded=[],
    )
