"""Percentiles by run and requests by status; a percentile with too few samples is withheld."""

from collections.abc import Sequence

from reports.dossier import Dossier
from reports.format import MISSING, count, measured, number, percent, quantity, scale_of
from reports.model import Section, Table
from teardown.records import Quantiles, Run, Window
from teardown.stats import FEWEST

METRICS = (
    ("ttft_s", "Time to first token (TTFT)"),
    ("tpot_s", "Time per output token (TPOT)"),
    ("e2e_s", "Whole answer (E2E)"),
    ("client_wait_s", "Client wait"),
    ("max_gap_s", "Longest gap between chunks"),
)
NAMES = ("p50", "p90", "p95", "p99")


def quantiles_of(window: Window, field: str) -> Quantiles:
    """Return the percentiles of one metric of a window."""
    found = getattr(window, field)
    assert isinstance(found, Quantiles)
    return found


def percentile_section(dossier: Dossier) -> Section | None:
    """Return all percentiles: of the plateau in sight, of the whole run folded."""
    runs = [r for r in dossier.runs if r.summary is not None]
    if not runs:
        return None
    tables = [_load_table(runs)]
    tables += [_percentile_table(runs, field, words, "plateau") for field, words in METRICS]
    folded = [_percentile_table(runs, field, words, "whole") for field, words in METRICS]
    return Section(
        anchor="percentiles",
        title="All percentiles",
        lead=["The interval beside a percentile speaks of that run, not of the next one."],
        tables=tables,
        folded=folded,
    )


def window_of(run: Run, name: str) -> Window:
    """Return a window of a run that has a summary."""
    assert run.summary is not None
    return run.summary.plateau if name == "plateau" else run.summary.whole


def _load_table(runs: Sequence[Run]) -> Table:
    def row(run: Run) -> list[str]:
        window = window_of(run, "plateau")
        kept = measured(window.attainment, "share") if window.attainment else MISSING
        return [
            run.run,
            run.stack,
            count(window.num_requests),
            count(window.num_failed),
            number(window.requests_per_s),
            number(window.output_tokens_per_s),
            kept,
            number(window.goodput_per_s),
        ]

    return Table(
        caption="Load and promise in the plateau",
        columns=[
            "Run",
            "Stack",
            "Requests",
            "Failed",
            "Requests/s",
            "Output tok/s",
            "Within the promise",
            "Goodput /s",
        ],
        rows=[row(r) for r in runs],
    )


def _percentile_table(runs: Sequence[Run], field: str, words: str, window: str) -> Table:
    by_run = [(r, quantiles_of(window_of(r, window), field)) for r in runs]
    values = [e.value for _, q in by_run for n in NAMES if (e := getattr(q, n)) is not None]
    scale = scale_of("s", *values, *(q.mean for _, q in by_run))

    def cell(q: Quantiles, name: str) -> str:
        estimate = getattr(q, name)
        if estimate is not None:
            return measured(estimate, "s", scale).replace(scale.suffix, "")
        if q.n < FEWEST[name]:
            return f"n too small: {FEWEST[name]} needed"
        return q.withheld.get(name, MISSING)

    where = "plateau" if window == "plateau" else "whole run"
    return Table(
        caption=f"{words}, {where},{scale.suffix}",
        columns=["Run", "Stack", "n", "Mean", *NAMES],
        rows=[
            [
                run.run,
                run.stack,
                count(q.n),
                quantity(q.mean, "s", scale).replace(scale.suffix, ""),
                *(cell(q, name) for name in NAMES),
            ]
            for run, q in by_run
        ],
    )


def status_section(dossier: Dossier) -> Section | None:
    """Return how the requests of every run ended."""
    runs = [r for r in dossier.runs if r.summary is not None]
    statuses = list(
        dict.fromkeys(s for r in runs if r.summary for s in sorted(r.summary.num_by_status))
    )
    if not statuses:
        return None
    rows = []
    for run in runs:
        by_status = run.summary.num_by_status if run.summary else {}
        total = sum(by_status.values())
        failed = total - by_status.get("ok", 0)
        share = percent(failed / total) if total else MISSING
        rows.append([run.run, run.stack, *(count(by_status.get(s, 0)) for s in statuses), share])
    return Section(
        anchor="requests",
        title="How the requests ended",
        lead=[],
        tables=[
            Table(
                caption="Requests by status, whole run",
                columns=["Run", "Stack", *statuses, "Not ok"],
                rows=rows,
            )
        ],
        folded=[],
    )
