"""Before beside after: options and host with every difference, what was emitted, provenance."""

import re
from typing import Any

from reports.appendix import when
from reports.candidates import NOT_SET, option_text
from reports.dossier import Dossier
from reports.format import MISSING, count
from reports.model import Section, Table
from teardown.records import Options, Run, Stack

HIDDEN = "withheld"
# Values that differ between any two runs and mean nothing by it.
VOLATILE = {"measured_unix_s", "load_average"}
# Names of values that are never printed, and texts that look like a path on somebody's machine.
SECRET = re.compile(r"(?i)api[-_]?key|token$|secret|passw|credential|auth")
PATH = re.compile(r"^(?:[A-Za-z]:)?[/\\~][^\s]*[/\\]([^/\\\s]+)$")


def shown(name: str, value: object) -> str:
    """Return a value for print: secrets withheld, of a path its last part."""
    if value is None:
        return NOT_SET
    if SECRET.search(name) and isinstance(value, str):
        return HIDDEN
    text = option_text(value) if isinstance(value, (bool, int, float, str)) else str(value)
    found = PATH.match(text)
    return f"…/{found[1]}" if found else text


def environment_section(dossier: Dossier) -> Section:
    """Return options and environment before and after; an unintended difference is a warning."""
    verdict = dossier.verdict
    before = dossier.before_runs[0] if dossier.before_runs else dossier.runs[0]
    after = dossier.after_runs[-1] if dossier.after_runs else None
    original = verdict.original if verdict is not None else before.target
    accepted = verdict.accepted if verdict is not None else None
    changed: Options = dict(dossier.proof.changes) if dossier.proof is not None else {}
    tables = [_identity_table(dossier)]
    stack_after = after.target if after is not None else accepted
    table, surprises = option_table(before.target, stack_after, changed)
    tables.append(table)
    host = _host_table(dossier, before, after)
    if host is not None:
        tables.append(host)
    lead = []
    if surprises:
        lead.append(
            "Warning: these differ besides the intended change, and may have a part in the effect: "
            f"{', '.join(surprises)}."
        )
    elif stack_after is not None:
        lead.append("Nothing that the engine reports differs besides the intended change.")
    if original.options != before.target.options:
        lead.append(
            "Warning: the runs before were not made with the options of the original stack."
        )
    return Section(
        anchor="environment",
        title="Options and environment, before and after",
        lead=lead,
        tables=tables,
        folded=[],
    )


def _identity_table(dossier: Dossier) -> Table:
    fields = ("engine", "launcher", "version", "model", "served_model")
    columns: dict[tuple[str, ...], list[str]] = {}
    for run in dossier.runs:
        identity = tuple(shown(f, getattr(run.target, f)) for f in fields)
        columns.setdefault(identity, []).append(run.run)
    return Table(
        caption="What ran",
        columns=["Engine", "Launcher", "Version", "Model", "Served as", "Runs"],
        rows=[
            [*identity, ", ".join(runs) if len(runs) < 4 else f"{runs[0]} to {runs[-1]}"]
            for identity, runs in columns.items()
        ],
    )


def option_table(before: Stack, after: Stack | None, changed: Options) -> tuple[Table, list[str]]:
    """Return asked and effective options on both sides, and the differences nobody asked for."""
    stacks = [before] if after is None else [before, after]
    names = sorted({n for s in stacks for n in (*s.options, *s.effective)} | set(changed))
    rows, surprises, marks = [], [], set()
    for name in names:
        cells = [
            shown(name, getattr(s, kind).get(name))
            for s in stacks
            for kind in ("options", "effective")
        ]
        if after is None:
            rows.append([name, *cells])
            continue
        differs = cells[0] != cells[2] or cells[1] != cells[3]
        word = "same"
        if differs:
            word = "intended" if name in changed else "NOT intended"
            marks.add(len(rows))
            if name not in changed:
                surprises.append(name)
        rows.append([name, *cells, word])
    columns = ["Option", "Before: asked", "Before: runs with"]
    if after is not None:
        columns += ["After: asked", "After: runs with", "Difference"]
    table = Table(caption="Engine options", columns=columns, rows=rows, marks=frozenset(marks))
    return table, surprises


def _host_table(dossier: Dossier, before: Run, after: Run | None) -> Table | None:
    sides = [_values(dossier, run) for run in (before, after) if run is not None]
    names = sorted({name for side in sides for name in side})
    if not names:
        return None
    rows = [[name, *(shown(name, side.get(name)) for side in sides)] for name in names]
    differs = frozenset(
        i for i, row in enumerate(rows) if len(set(row[1:])) > 1 and row[0] not in VOLATILE
    )
    for i, row in enumerate(rows):
        if after is not None:
            word = "differs" if i in differs else "same"
            row.append("varies by nature" if row[0] in VOLATILE else word)
    columns = ["Host and versions", f"Before ({before.run})"]
    if after is not None:
        columns += [f"After ({after.run})", "Difference"]
    return Table(caption="Host and versions", columns=columns, rows=rows, marks=differs)


def _values(dossier: Dossier, run: Run) -> dict[str, Any]:
    environment = dossier.environments.get(run.run)
    return environment.values if environment is not None else {}


def emitted_section(dossier: Dossier) -> Section | None:
    """Return the files that the client's team keeps, and the alerts that watch them."""
    bundle = dossier.bundle
    if bundle is None:
        return None
    tables = [Table(caption="Files below out/", columns=["File"], rows=[[f] for f in bundle.files])]
    if bundle.alerts:
        tables.append(
            Table(
                caption="Alerts",
                columns=["Alert", "Severity", "Must hold for", "What it says", "Runbook page"],
                rows=[
                    [a.alert, a.severity, f"{a.for_s:.0f} s", a.summary, a.runbook]
                    for a in bundle.alerts
                ],
            )
        )
    return Section(
        anchor="emitted",
        title="What is handed over",
        lead=[
            f"Service {bundle.service}, {count(len(bundle.files))} files, stamped with "
            f"configuration {bundle.config_sha256[:12]}."
        ],
        tables=tables,
        folded=[],
    )


def provenance_section(dossier: Dossier) -> Section:
    """Return the runs, the hashes and the command that makes this report again."""
    verdict, bundle = dossier.verdict, dossier.bundle
    hashes = [
        ["accuracy reference", (verdict.oracle_sha256 if verdict else None) or MISSING],
        ["emitted configuration", bundle.config_sha256 if bundle else MISSING],
        ["model file", (bundle.model_sha256 if bundle else None) or MISSING],
    ]
    schedules: dict[str, str] = {r.workload: r.schedule_sha256 for r in dossier.runs}
    hashes += [[f"schedule of {name}", sha256] for name, sha256 in schedules.items()]
    runs = [
        [r.run, r.stack, r.workload, r.regime, when(r), str(r.seed), r.schedule_sha256[:12]]
        for r in dossier.runs
    ]
    return Section(
        anchor="provenance",
        title="Provenance",
        lead=["teardown report DIR makes this file again from the records below, byte for byte."],
        tables=[
            Table(
                caption="Runs",
                columns=["Run", "Stack", "Workload", "Caches", "When (UTC)", "Seed", "Schedule"],
                rows=runs,
            ),
            Table(caption="Hashes (SHA-256)", columns=["Of", "SHA-256"], rows=hashes),
        ],
        folded=[
            Table(
                caption=f"Records that this report was made from: {len(dossier.sha256)}",
                columns=["Record", "SHA-256"],
                rows=[[path, digest] for path, digest in dossier.sha256.items()],
            )
        ],
    )
