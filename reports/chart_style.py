"""What all charts share: colours, type, padding, and the frame of a specification.

Colours are those of `PALETTE`; `svg.py` turns them into classes, so that the style sheet gives the
dark ones. Before is grey and dashed, after is the accent and solid, by shape as well as colour.
"""

import textwrap
from typing import Any

from reports.format import clean

# Okabe & Ito, Color Universal Design, 2008; darkened where 3:1 against white asks for it.
PALETTE = {
    "ink": "#1b1f25",
    "muted": "#5b6470",
    "grid": "#e1e5ea",
    "before": "#636b78",
    "after": "#0069a8",
    "band": "#f3e3b3",
    "unexplained": "#a9b0ba",
}
WIDTH, ROW = 560, 48
DASH = [5, 4]
# Readers' fonts are wider or narrower than the one that the text was measured with.
PADDING = {"left": 28, "right": 34, "top": 6, "bottom": 6}
LABEL_CHARACTERS = 30
WRAPPED = "split(datum.label, '\\n')"

Spec = dict[str, Any]
Rows = list[dict[str, Any]]


# A nominal axis that only names its rows.
NAME_AXIS: Spec = {"ticks": False, "domain": False, "labelPadding": 8, "labelExpr": WRAPPED}


def specification(height: int, layers: list[Spec], **more: Any) -> Spec:
    """Return a layered specification with the report's type and colours."""
    axis = {
        "labelColor": PALETTE["ink"],
        "titleColor": PALETTE["muted"],
        "gridColor": PALETTE["grid"],
        "domainColor": PALETTE["muted"],
        "tickColor": PALETTE["muted"],
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 0,
        "titlePadding": 8,
    }
    return {
        "width": WIDTH,
        "height": height,
        "padding": PADDING,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": "transparent",
        "layer": layers,
        "config": {"view": {"stroke": None}, "axis": axis, "text": {"fontSize": 12}},
        **more,
    }


def inline_data(rows: Rows) -> Spec:
    """Return rows as the data of a specification or layer."""
    return {"values": rows}


def rule(axis: str, value: float) -> Spec:
    """Return one thin line across the chart at `value`."""
    return {
        "data": inline_data([{"at": value}]),
        "mark": {"type": "rule", "color": PALETTE["muted"], "strokeWidth": 1},
        "encoding": {axis: {"field": "at", "type": "quantitative"}},
    }


def wrapped(label: str) -> str:
    """Return a label in at most three lines, for `WRAPPED` to split."""
    return "\n".join(textwrap.wrap(clean(label), LABEL_CHARACTERS, max_lines=3, placeholder=" …"))
