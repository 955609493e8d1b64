"""The verb `report`: records in the engagement folder to `out/report.html`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reports.dossier import Dossier


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
@click.option("--recheck", is_flag=True, help="measure again and compare with this report")
def report(folder: Path, as_json: bool, recheck: bool) -> None:
    """Write DIR/out/report.html: before and after, with what it rests on.

    \b
    teardown report acme            write acme/out/report.html
    """
    import json

    from reports.dossier import read_dossier
    from reports.first_screen import first_screen
    from reports.render import render, report_path, sha256_text
    from teardown.engagement import Engagement, write_atomic
    from teardown.errors import FeatureMissing

    if recheck:
        raise FeatureMissing(
            "`report --recheck` is not there yet; `teardown measure` and `teardown compare` "
            "measure again by hand"
        )
    dossier = read_dossier(folder)
    engagement = Engagement(folder)
    path = report_path(engagement.out_dir)
    with engagement.lock():
        text = render(dossier)
        write_atomic(path, text)
        engagement.write_manifest()
    if as_json:
        document = {
            "schema": "teardown.report/1",
            "path": str(path),
            "sha256": sha256_text(text),
        }
        click.echo(json.dumps(document))
        return
    click.echo(path)
    click.echo(first_screen(dossier).sentence)
    click.echo(f"next: {next_command(folder, dossier)}")


def next_command(folder: Path, dossier: "Dossier") -> str:
    """Return the first verb whose record is missing, or what to do with the report."""
    from reports.build import missing
    from reports.validity import validity_bar

    if validity_bar(dossier).light == "invalid":
        return f"teardown measure {folder}"
    absent = missing(dossier)
    if absent:
        return absent[0].text.replace("DIR", str(folder))
    return f"open {folder / 'out' / 'report.html'}"
