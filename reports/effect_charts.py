"""Predicted beside measured, and the pairs of runs that the proof rests on."""

from typing import Any

from reports.appendix import goal_metric
from reports.candidates import effect, trial_of
from reports.chart_style import (
    DASH,
    NAME_AXIS,
    PALETTE,
    ROW,
    Rows,
    Spec,
    inline_data,
    rule,
    specification,
    wrapped,
)
from reports.dossier import Dossier
from reports.format import clean, factor, fixed, quantity, scale_of
from reports.model import Chart, Table
from reports.words import metric
from teardown.records import Estimate


def predicted_chart(dossier: Dossier) -> Chart | None:
    """Return predicted beside measured effect of every candidate, with intervals."""
    if dossier.plan is None or not dossier.plan.candidates:
        return None
    rows: Rows = []
    table: list[list[str]] = []
    for candidate in dossier.plan.candidates:
        best = effect(trial_of(dossier, candidate.candidate, "proof")) or effect(
            trial_of(dossier, candidate.candidate, "screen")
        )
        title = clean(candidate.title)
        rows.append(_effect_row(wrapped(title), "predicted", candidate.predicted))
        if best is not None:
            rows.append(_effect_row(wrapped(title), "measured", best))
        table.append([title, factor(candidate.predicted), factor(best)])
    titles = list(dict.fromkeys(r["title"] for r in rows))
    y = {
        "field": "title",
        "type": "nominal",
        "sort": titles,
        "title": None,
        "axis": NAME_AXIS,
    }
    offset = {
        "field": "kind",
        "type": "nominal",
        "sort": ["predicted", "measured"],
        "scale": {"paddingOuter": 0.6},
    }
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": {"zero": False, "nice": True},
        "title": "improvement of the goal metric, × (right of 1 is better)",
        "axis": {"tickCount": 5},
    }
    layers = [*_floor_layers(dossier, "x", 1.0), rule("x", 1.0)]
    for kind, colour in (("predicted", "before"), ("measured", "after")):
        only = [{"filter": {"field": "kind", "equal": kind}}]
        dashed: Spec = {"strokeDash": DASH} if kind == "predicted" else {}
        layers += [
            {
                "transform": only,
                "mark": {"type": "rule", "color": PALETTE[colour], "strokeWidth": 2.5, **dashed},
                "encoding": {
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                    "y": y,
                    "yOffset": offset,
                },
            },
            {
                "transform": only,
                "mark": {
                    "type": "point",
                    "size": 70,
                    "color": PALETTE[colour],
                    "filled": kind == "measured",
                    "strokeWidth": 2,
                    "opacity": 1,
                },
                "encoding": {"x": x, "y": y, "yOffset": offset},
            },
        ]
    return Chart(
        chart="predicted",
        question="Did the changes do what was predicted?",
        description="Effect of each change; hollow and dashed: predicted, filled and solid: "
        "measured, with 95 % intervals. "
        + "; ".join(f"{t}: predicted {p}, measured {m}" for t, p, m in table)
        + ".",
        spec=specification(ROW * len(titles), layers, data=inline_data(rows)),
        table=Table(
            caption="Effect on the goal metric, proof where there is one, else screening",
            columns=["Change", "Predicted", "Measured"],
            rows=table,
            note="Hollow, dashed: predicted. Filled, solid: measured. "
            "Shaded: the noise floor, where it was measured.",
        ),
    )


def _effect_row(title: str, kind: str, estimate: Estimate) -> dict[str, Any]:
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return {"title": title, "kind": kind, "value": estimate.value, "low": low, "high": high}


def noise_band(floor: Estimate | None) -> tuple[float, float] | None:
    """Return the ratios between which unchanged runs differ (else value and its inverse)."""
    if floor is None:
        return None
    if floor.low is not None and floor.high is not None:
        return floor.low, floor.high
    if floor.value <= 0 or floor.value == 1:
        return None
    return min(floor.value, 1 / floor.value), max(floor.value, 1 / floor.value)


def _floor_layers(dossier: Dossier, axis: str, centre: float) -> list[Spec]:
    """Return the noise floor as a band across `axis`, around `centre`."""
    band = noise_band(dossier.verdict.noise_floor) if dossier.verdict else None
    if band is None:
        return []
    row = {"from": centre * band[0], "to": centre * band[1]}
    return [
        {
            "data": inline_data([row]),
            "mark": {"type": "rect", "color": PALETTE["band"], "opacity": 1},
            "encoding": {
                axis: {"field": "from", "type": "quantitative"},
                f"{axis}2": {"field": "to"},
            },
        }
    ]


def pairs_chart(dossier: Dossier) -> Chart | None:
    """Return the goal metric of every proof pair as a line from before to after."""
    proof = dossier.proof
    whole = [p for p in proof.pairs if p.before and p.after] if proof else []
    if proof is None or not whole:
        return None
    words = metric(goal_metric(dossier))
    scale = scale_of(words.unit, *(v for p in whole for v in (p.before, p.after)))
    rows: Rows = []
    table: list[list[str]] = []
    for index, pair in enumerate(whole, 1):
        before, after = pair.before or 0.0, pair.after or 0.0
        kind = "set aside" if pair.excluded else "counts"
        for side, value in (("before", before), ("after", after)):
            rows.append(
                {"pair": str(index), "side": side, "kind": kind, "value": value * scale.factor}
            )
        table.append(
            [
                str(index),
                quantity(before, words.unit, scale),
                quantity(after, words.unit, scale),
                f"{fixed(after / before, 2)}×",
                f"{pair.first} first",
                pair.excluded or "counts",
            ]
        )
    befores = [r["value"] for r in rows if r["side"] == "before" and r["kind"] == "counts"]
    unit = scale.suffix.strip() or "ratio"
    x = {
        "field": "side",
        "type": "nominal",
        "sort": ["before", "after"],
        "title": None,
        "axis": {"labelAngle": 0, "labelFontSize": 13, "ticks": False},
        "scale": {"type": "point", "padding": 0.35},
    }
    y = {
        "field": "value",
        "type": "quantitative",
        "title": f"{words.label}, {unit}",
        "scale": {"zero": False, "nice": True},
        "axis": {"tickCount": 5},
    }
    layers = _floor_layers(dossier, "y", sum(befores) / len(befores)) if befores else []
    for kind, colour in (("set aside", "before"), ("counts", "after")):
        dashed: Spec = {"strokeDash": DASH} if kind == "set aside" else {}
        layers.append(
            {
                "transform": [{"filter": {"field": "kind", "equal": kind}}],
                "mark": {"type": "line", "color": PALETTE[colour], "strokeWidth": 2, **dashed},
                "encoding": {"x": x, "y": y, "detail": {"field": "pair", "type": "nominal"}},
            }
        )
    for side in ("before", "after"):
        layers.append(
            {
                "transform": [{"filter": {"field": "side", "equal": side}}],
                "mark": {
                    "type": "point",
                    "size": 60,
                    "color": PALETTE[side],
                    "opacity": 1,
                    "filled": side == "after",
                    "strokeWidth": 2,
                },
                "encoding": {"x": x, "y": y},
            }
        )
    return Chart(
        chart="pairs",
        question="Did every pair of runs move the same way?",
        description=f"Each line is one pair of runs, {words.label} before and after. "
        + "; ".join(f"pair {t[0]}: {t[1]} to {t[2]}" for t in table)
        + ".",
        spec=specification(230, layers, data=inline_data(rows)),
        table=Table(
            caption=f"Pairs of {proof.trial}",
            columns=["Pair", "Before", "After", "After / before", "Order", "Counts"],
            rows=table,
            note="Shaded: what two sets of unchanged runs differ by. Dashed: pairs set aside.",
        ),
    )
