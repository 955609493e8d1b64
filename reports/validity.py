"""May these runs be believed: in one bar, and check by check."""

from reports.dossier import Dossier
from reports.format import number, plural
from reports.model import Light, Section, Table, ValidityBar
from teardown.records import Run, ValidityReason

NUM_REASONS = 2

LABELS: dict[Light, str] = {
    "valid": "VALID",
    "warnings": "VALID WITH WARNINGS",
    "invalid": "INVALID",
    "simulated": "SIMULATED",
}


def validity_bar(dossier: Dossier) -> ValidityBar:
    """Return the worst validity of the runs that the report rests on, with every reason once."""
    runs = dossier.basis
    found: dict[str, list[Run]] = {}
    for level in ("invalid", "warn"):
        for run in runs:
            for reason in run.validity.reasons:
                if reason.level == level:
                    found.setdefault(f"{reason.code.replace('_', ' ')}: {reason.text}", []).append(
                        run
                    )
    reasons = [f"{text} ({_whose(who, len(runs))})" for text, who in found.items()]
    verdicts = {run.validity.verdict for run in runs}
    if dossier.attribution is not None:
        verdicts.add(dossier.attribution.validity.verdict)
    set_aside = [p for p in dossier.proof.pairs if p.excluded] if dossier.proof else []
    reasons += [f"pair {p.run_before} / {p.run_after} set aside: {p.excluded}" for p in set_aside]
    light: Light = "warnings" if "warnings" in verdicts or set_aside else "valid"
    if "invalid" in verdicts:
        light = "invalid"
    simulated = [run.run for run in dossier.runs if run.simulated]
    if simulated:
        light = "simulated"
        reasons.insert(0, f"{len(simulated)} of {plural(len(dossier.runs), 'run')} simulated")
    if not reasons:
        checks = sum(len(run.validity.checks) for run in runs)
        reasons = [f"every one of {plural(checks, 'check')} on {plural(len(runs), 'run')} holds"]
    return ValidityBar(
        light=light,
        label=LABELS[light],
        reasons=reasons[:NUM_REASONS],
        more=max(len(reasons) - NUM_REASONS, 0),
    )


def _whose(runs: list[Run], out_of: int) -> str:
    names = ", ".join(run.run for run in runs)
    return names if len(runs) <= NUM_REASONS else f"{len(runs)} of {out_of} runs"


def validity_section(dossier: Dossier) -> Section:
    """Return every check of every run; a run with a failing check is not folded away."""
    tables: list[Table] = []
    folded: list[Table] = []
    for run in dossier.runs:
        table = _check_table(run)
        (folded if run.validity.verdict == "valid" else tables).append(table)
    return Section(
        anchor="validity",
        title="May these runs be believed?",
        lead=[],
        tables=tables,
        folded=folded,
    )


def _check_table(run: Run) -> Table:
    checks = run.validity.checks or run.validity.reasons

    def row(check: ValidityReason) -> list[str]:
        return [
            check.code.replace("_", " "),
            check.measure,
            number(check.value),
            number(check.warn),
            number(check.invalid),
            check.level,
            check.text,
        ]

    simulated = ", simulated" if run.simulated else ""
    return Table(
        caption=f"{run.run}: {run.validity.verdict}{simulated}",
        columns=["Check", "Measure", "Value", "Warns at", "Invalid at", "Level", "What it says"],
        rows=[row(c) for c in checks],
        marks=frozenset(i for i, c in enumerate(checks) if c.level != "ok"),
    )
