"""The verb of what the client keeps: emit."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def emit(folder: Path, as_json: bool) -> None:
    """Write the accepted stack as systemd, Compose, Terraform, monitoring and runbook to DIR/out.

    Reads verdict.json and engagement.yaml. Where no change helped, the original stack is written.
    """
    from iac.steps import emit_step

    emit_step(folder, as_json)
