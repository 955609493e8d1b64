"""A Vega-Lite specification as SVG that may stand inside a page: named, classed, harmless.

vl-convert draws; only the elements and attributes listed here survive, colours become classes of
the style sheet, and every id carries the chart's name. Same specification, same bytes.
"""

import json
import re
from typing import Any, NamedTuple
from xml.etree import ElementTree

from markupsafe import Markup

from reports.chart_style import PALETTE
from reports.format import clean
from reports.model import Chart

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "g", "path", "rect", "line", "circle", "text", "tspan", "clipPath", "defs"}
ATTRIBUTES = {
    "class", "clip-path", "cx", "cy", "d", "dx", "dy", "fill", "fill-opacity", "font-size",
    "font-weight", "height", "id", "opacity", "r", "stroke", "stroke-dasharray", "stroke-linecap",
    "stroke-miterlimit", "stroke-opacity", "stroke-width", "text-anchor", "transform", "width",
    "viewBox", "x", "x1", "x2", "y", "y1", "y2",
}  # fmt: skip
ROLE_BY_COLOUR = {colour: role for role, colour in PALETTE.items()}
URL = re.compile(r"url\(#([\w-]+)\)")


class Drawn(NamedTuple):
    """The charts by name, and why there are none where the packages are missing."""

    svg_by_chart: dict[str, Markup]
    missing: str


def draw(charts: list[Chart]) -> Drawn:
    """Draw every chart; without the extra `charts` none is drawn and `missing` says so."""
    try:
        import altair
        import vl_convert
    except ImportError as error:
        return Drawn(
            {},
            f"The charts are not drawn: the package {error.name} is not installed. Their numbers "
            "are in the tables. `pip install 'teardown-kit[charts]'` brings it.",
        )
    drawn = {}
    for chart in charts:
        valid = altair.Chart.from_dict(_cleaned(chart.spec)).to_dict()
        version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
        text = vl_convert.vegalite_to_svg(json.dumps(valid, sort_keys=True), vl_version=version)
        drawn[chart.chart] = inline(text, chart)
    return Drawn(drawn, "")


def _cleaned(value: Any) -> Any:
    """Return a specification whose texts can be written as JSON; labels keep their line breaks."""
    if isinstance(value, str):
        return "\n".join(clean(line) for line in value.split("\n"))
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items()}
    return value


def inline(text: str, chart: Chart) -> Markup:
    """Return the drawing as an element of the page with title, description and role."""
    root = ElementTree.fromstring(text)
    scoped = _copy(root, chart.chart)
    assert scoped is not None
    width, height = root.get("width", "1"), root.get("height", "1")
    scoped.attrib.update(
        {
            "viewBox": root.get("viewBox", f"0 0 {width} {height}"),
            "width": width,
            "height": height,
            "class": "chart",
            "role": "img",
            "aria-labelledby": f"{chart.chart}-title {chart.chart}-desc",
        }
    )
    for position, (tag, words) in enumerate(
        (("title", chart.question), ("desc", chart.description))
    ):
        element = ElementTree.Element(tag, {"id": f"{chart.chart}-{tag}"})
        element.text = clean(words)
        scoped.insert(position, element)
    return Markup(ElementTree.tostring(scoped, encoding="unicode"))


def _copy(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    """Return the element with what is listed above; None for an element that is not."""
    tag = element.tag.removeprefix(SVG)
    if tag not in ELEMENTS or element.get("display") == "none":
        return None
    if tag == "path" and element.get("class") in ("background", "foreground"):
        return None
    copy = ElementTree.Element(tag, _attributes(element, name))
    copy.text = element.text
    for child in element:
        kept = _copy(child, name)
        if kept is not None:
            copy.append(kept)
    if tag == "g" and len(copy) == 0:
        return None
    return copy


def _attributes(element: ElementTree.Element, name: str) -> dict[str, str]:
    found: dict[str, Any] = {}
    classes = []
    for key, value in sorted(element.attrib.items()):
        if key not in ATTRIBUTES or key == "class":
            continue
        if key in ("fill", "stroke") and value in ROLE_BY_COLOUR:
            classes.append(f"{key}-{ROLE_BY_COLOUR[value]}")
        if key == "id":
            value = f"{name}-{value}"
        found[key] = URL.sub(lambda m: f"url(#{name}-{m[1]})", value)
    if classes:
        found["class"] = " ".join(classes)
    return found
