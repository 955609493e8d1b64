"""View model to one HTML file: no script, no request, every record's text escaped."""

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.build import build_report
from reports.dossier import Dossier
from reports.format import clean
from reports.model import Report
from reports.svg import Drawn, draw


def render(dossier: Dossier, kit_version: str | None = None) -> str:
    """Return the report of these records; same records and same kit, same text."""
    report = build_report(dossier, kit_version or installed_version())
    return to_html(report, draw(report.charts))


def installed_version() -> str:
    """Return the version of the kit that is installed."""
    try:
        return version("teardown-kit")
    except PackageNotFoundError:
        return "from source"


def to_html(report: Report, drawn: Drawn) -> str:
    """Return the page; the style sheet is allowed by its hash, nothing else may load."""
    css = (files("reports") / "assets" / "report.css").read_text(encoding="utf-8")
    # What is hashed must be what the page holds between its tags, to the byte.
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    return environment.get_template("report.html.j2").render(
        report=report,
        svg_by_chart=drawn.svg_by_chart,
        charts_missing=drawn.missing,
        css=Markup(css),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
    )


def _finalize(value: object) -> object:
    """Strip characters that no reader can see from every text that a record supplies."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return value


def sha256_text(text: str) -> str:
    """Return the SHA-256 of the file that this text becomes."""
    return hashlib.sha256(text.encode()).hexdigest()


def report_path(out_dir: Path) -> Path:
    """Return where the report lies below `out/`."""
    return out_dir / "report.html"
