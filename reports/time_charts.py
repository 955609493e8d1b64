"""Where the time goes, and how long until the answer begins."""

from reports.chart_style import NAME_AXIS, PALETTE, Rows, Spec, inline_data, specification, wrapped
from reports.dossier import Dossier
from reports.format import MISSING, measured, percent, scale_of
from reports.model import Chart, Table
from reports.percentiles import NAMES
from reports.words import time_class
from teardown.records import Estimate, Run


def shares_chart(dossier: Dossier) -> Chart | None:
    """Return where the time went, by class, with what is not explained in grey."""
    attribution = dossier.attribution
    if attribution is None or not attribution.shares:
        return None
    shares = sorted(
        attribution.shares.items(), key=lambda item: (item[0] == "unexplained", -item[1], item[0])
    )
    rows: Rows = [
        {
            "name": wrapped(time_class(name)),
            "share": 100 * share,
            "label": percent(share),
            "kind": "unexplained"
            if name == "unexplained"
            else ("after" if name == attribution.time_class else "before"),
        }
        for name, share in shares
        if share > 0
    ]
    names = [r["name"] for r in rows]
    y = {
        "field": "name",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": NAME_AXIS,
    }
    x = {
        "field": "share",
        "type": "quantitative",
        "title": "share of the time users wait, %",
        "scale": {"domainMin": 0},
        "axis": {"tickCount": 5},
    }
    colour = {
        "field": "kind",
        "type": "nominal",
        "legend": None,
        "scale": {
            "domain": ["after", "before", "unexplained"],
            "range": [PALETTE["after"], PALETTE["before"], PALETTE["unexplained"]],
        },
    }
    layers: list[Spec] = [
        {"mark": {"type": "bar", "height": 16}, "encoding": {"x": x, "y": y, "color": colour}},
        {
            "mark": {"type": "text", "align": "left", "dx": 5, "color": PALETTE["ink"]},
            "encoding": {"x": x, "y": y, "text": {"field": "label", "type": "nominal"}},
        },
    ]
    return Chart(
        chart="shares",
        question="Where does the time go?",
        description="Bars, longest first: "
        + ", ".join(f"{time_class(name)} {percent(share)}" for name, share in shares)
        + f". From run {attribution.run}.",
        spec=specification(38 * len(rows), layers, data=inline_data(rows)),
        table=Table(
            caption=f"Shares of experienced time, run {attribution.run}",
            columns=["Class", "Share"],
            rows=[[time_class(name), percent(share)] for name, share in shares],
        ),
    )


def percentiles_chart(dossier: Dossier) -> Chart | None:
    """Return the time to first token by percentile: one mark per run, before beside after."""
    rows: Rows = []
    sides = (("before", dossier.before_runs), ("after", dossier.after_runs))
    found = [
        (n, s, r, e)
        for n in NAMES
        for s, runs in sides
        for r in runs
        if (e := _ttft(r, n)) is not None
    ]
    if not found:
        return None
    scale = scale_of("s", *(e.value for _, _, _, e in found))
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for name, side, run, estimate in found:
        rows.append({"name": name, "side": side, "value": estimate.value * scale.factor})
        cells.setdefault((run.run, side), {})[name] = measured(estimate, "s", scale)
    names = [n for n in NAMES if any(r["name"] == n for r in rows)]
    table = [
        [run, side, *(by_name.get(n, MISSING) for n in names)]
        for (run, side), by_name in cells.items()
    ]
    y = {
        "field": "name",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": {"ticks": False, "domain": False, "labelPadding": 8, "labelFontSize": 13},
    }
    offset = {
        "field": "side",
        "type": "nominal",
        "sort": ["before", "after"],
        "scale": {"paddingOuter": 0.6},
    }
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": True},
        "title": f"time to first token (TTFT),{scale.suffix}",
        "axis": {"tickCount": 5},
    }
    layers: list[Spec] = []
    for side in ("before", "after"):
        only = [{"filter": {"field": "side", "equal": side}}]
        layers += [
            {
                "transform": only,
                "mark": {
                    "type": "point",
                    "size": 70,
                    "filled": side == "after",
                    "opacity": 0.85,
                    "color": PALETTE[side],
                    "strokeWidth": 2,
                },
                "encoding": {"x": x, "y": y, "yOffset": offset},
            },
            {
                "transform": only,
                "mark": {"type": "text", "align": "left", "dx": 10, "color": PALETTE[side]},
                "encoding": {
                    "x": {**x, "aggregate": "max"},
                    "y": y,
                    "yOffset": offset,
                    "text": {"field": "side", "type": "nominal"},
                },
            },
        ]
    missing = [n for n in NAMES if n not in names]
    note = "One mark per run. Hollow: before. Filled: after."
    if missing:
        note += f" Withheld, too few requests in a run: {', '.join(missing)}."
    return Chart(
        chart="ttft",
        question="How long until the answer begins, for the typical and the unlucky user?",
        description="Time to first token by percentile, one mark per run. "
        + "; ".join(
            f"{run} {side}: " + ", ".join(f"{n} {text}" for n, text in by_name.items())
            for (run, side), by_name in cells.items()
        )
        + ".",
        spec=specification(58 * len(names), layers, data=inline_data(rows)),
        table=Table(
            caption="Time to first token (TTFT) by run",
            columns=["Run", "Stack", *names],
            rows=table,
            note=note,
        ),
    )


def _ttft(run: Run, name: str) -> Estimate | None:
    if run.summary is None:
        return None
    found = getattr(run.summary.plateau.ttft_s, name)
    assert found is None or isinstance(found, Estimate)
    return found
