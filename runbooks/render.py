"""The bundle to Markdown: one page per alert, and an index that says how to run the server."""

import json
import re

from jinja2 import Environment, PackageLoader, StrictUndefined

from runbooks.names import Names, metrics_in, names_of
from runbooks.page import Page, unknown_page
from runbooks.pages import PAGES
from teardown.records import Alert, Bundle, OptionValue

INDEX = "runbook/README.md"
HEADINGS = (
    "Meaning",
    "Impact",
    "Diagnosis",
    "Mitigation",
    "Roll back",
    "Verify",
    "Escalate",
    "Last exercised",
)


def render_runbook(bundle: Bundle, client: str) -> dict[str, str]:
    """Return path below `out/` -> Markdown, for each alert of `bundle` and the index."""
    names = names_of(bundle)
    shared = {
        "header": f"teardown emit: {bundle.service} for {one_line(client)}; "
        f"config sha256 {bundle.config_sha256}".replace("--", "- -"),
        "client": markdown(client),
        "names": names,
        "options": _options(bundle),
    }
    environment = Environment(
        loader=PackageLoader("runbooks", "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # Markdown; client text passes through `markdown`
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["indented"] = indented
    page = environment.get_template("page.md.j2")
    pages = {
        alert.runbook: page.render(
            **shared,
            alert=alert,
            page=page_of(alert, names),
            metrics=metrics_in(alert.expr),
        )
        for alert in bundle.alerts
    }
    index = environment.get_template("index.md.j2").render(
        **shared, alerts=bundle.alerts, stack=bundle.stack, launch=bundle.launch
    )
    return pages | {INDEX: index}


def page_of(alert: Alert, names: Names) -> Page:
    """Return what the page of `alert` says."""
    describe = PAGES.get(alert.alert, unknown_page)
    return describe(alert, names)


def one_line(text: str) -> str:
    """Return `text` on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def markdown(text: str) -> str:
    """Return `text` on one line with every character escaped that Markdown gives a meaning."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", one_line(text))


def indented(text: str) -> str:
    """Return `text` as an indented code block, in which Markdown has no meaning."""
    return "\n".join("    " + line for line in text.splitlines())


def _options(bundle: Bundle) -> list[tuple[str, str, str]]:
    """Return (option, in the original, in this stack) for each option of either, changed first."""
    before, after = bundle.previous.options, bundle.stack.options
    rows = [
        (_code(name), _code(_shown(before.get(name))), _code(_shown(after.get(name))))
        for name in sorted({*before, *after})
    ]
    return sorted(rows, key=lambda row: row[1] == row[2])


def _shown(value: OptionValue) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _code(text: str) -> str:
    """Return `text` as code inside a table cell."""
    return "`" + one_line(text).replace("`", "'").replace("|", "\\|") + "`"
