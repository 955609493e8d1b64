"""The verbs of tuning: plan, tune; bakeoff and validate come later."""

import json
from pathlib import Path
from typing import Any

import click

from teardown.errors import FeatureMissing

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")


def _print(record: Any, as_json: bool, text: str) -> None:
    if as_json:
        from teardown.records import to_document

        click.echo(json.dumps(to_document(record), ensure_ascii=False))
    else:
        click.echo(text)


@click.command()
@FOLDER
@JSON
def plan(folder: Path, as_json: bool) -> None:
    """List candidate changes with predicted gains and reasons; writes plan.json.

    teardown plan DIR
    """
    from tuning.steps import plan_step
    from tuning.text import plan_text

    made = plan_step(folder)
    _print(made, as_json, f"{plan_text(made)}\nnext: teardown tune {folder}")


@click.command()
@FOLDER
@click.option("--proposer", help="a command that proposes changes (not there yet)")
@click.option("--yes", is_flag=True, help="restart the stack without asking")
@JSON
def tune(folder: Path, proposer: str | None, yes: bool, as_json: bool) -> None:
    """Try the planned changes behind the oracle, prove what helps; writes verdict.json.

    teardown tune DIR --yes
    """
    if proposer:
        raise FeatureMissing("`tune --proposer` is not there yet; the kit's own rules propose")
    from tuning.steps import tune_step
    from tuning.text import verdict_text

    verdict = tune_step(folder, yes=yes)
    _print(verdict, as_json, f"{verdict_text(verdict)}\nnext: teardown emit {folder}")


@click.command()
@FOLDER
@JSON
def bakeoff(folder: Path, as_json: bool) -> None:
    """Measure several stacks on one schedule."""
    raise FeatureMissing(
        f"`teardown bakeoff` is not there yet; measure each stack into {folder} with --stack NAME"
    )


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("engine")
@click.option("--version", "version", required=True)
@click.option("--gpu", required=True)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@JSON
def validate(engine: str, **_: Any) -> None:
    """Say what an engine version makes of these flags, without a GPU."""
    raise FeatureMissing(
        f"`teardown validate` is not there yet: it comes with the option tables of {engine}"
    )
