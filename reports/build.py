"""Records to view model: the one place where the report is put together."""

from reports.appendix import (
    cost_section,
    left_alone_section,
    limits_section,
    method_section,
    rejected_section,
)
from reports.bottleneck import diagnosis_section
from reports.candidates import candidate_rows, findings
from reports.charts import charts
from reports.dossier import Dossier
from reports.environment import emitted_section, environment_section, provenance_section
from reports.first_screen import first_screen
from reports.model import Item, Report, Section
from reports.percentiles import percentile_section, status_section
from reports.validity import validity_section
from teardown.glossary import GLOSSARY


def build_report(dossier: Dossier, kit_version: str) -> Report:
    """Return everything that the templates show, as text."""
    proposed = dossier.verdict is None or dossier.verdict.outcome == "proposed_only"
    return Report(
        client=dossier.settings.client,
        kit_version=kit_version,
        first=first_screen(dossier),
        missing=missing(dossier),
        candidates=candidate_rows(dossier),
        charts=charts(dossier),
        findings_title="Proposed changes" if proposed else "Changes that were kept",
        findings_empty="Nothing is proposed yet."
        if proposed
        else "No change earned its place behind the accuracy gate: the stack stays as it is.",
        findings=findings(dossier),
        sections=sections(dossier),
        glossary=[
            [word, f"{term.name}: {term.text}", term.formula, term.unit]
            for word, term in GLOSSARY.items()
        ],
    )


def missing(dossier: Dossier) -> list[Item]:
    """Return the records that are not there yet, each with the verb that writes it."""
    verdict = dossier.verdict
    found = [
        Item(name=name, text=verb)
        for record, name, verb in (
            (dossier.attribution, "diagnosis", "teardown diagnose DIR"),
            (dossier.plan, "plan", "teardown plan DIR"),
            (verdict, "verdict", "teardown tune DIR"),
        )
        if record is None
    ]
    nothing_to_emit = verdict is not None and verdict.accepted is None
    if dossier.bundle is None and not nothing_to_emit:
        found.append(Item(name="emitted stack", text="teardown emit DIR"))
    return found


def sections(dossier: Dossier) -> list[Section]:
    """Return every section after the findings in reading order; those with nothing are left out."""
    found = (
        diagnosis_section(dossier.attribution),
        rejected_section(dossier),
        left_alone_section(dossier),
        cost_section(dossier),
        method_section(dossier),
        validity_section(dossier),
        percentile_section(dossier),
        status_section(dossier),
        environment_section(dossier),
        emitted_section(dossier),
        limits_section(dossier),
        provenance_section(dossier),
    )
    return [section for section in found if section is not None]
