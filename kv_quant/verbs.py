"""The verb of KV-cache quantisation; its content comes with the codecs."""

from pathlib import Path
from typing import Any

import click


class NotThereYet(click.ClickException):
    """Exit 3: the verb is part of the contract, its content is not built yet."""

    exit_code = 3


@click.group()
def kv() -> None:
    """KV-cache sizes, codecs, picking, quality."""


def _not_yet(verb: str) -> None:
    # this package stands below `teardown` and uses nothing of it, its error tree included
    raise NotThereYet(f"`teardown kv {verb}` is not there yet: it comes with the KV codecs")


@kv.command()
@click.option("--config", type=click.Path(path_type=Path), required=True)
@click.option("--context", type=int, required=True)
@click.option("--sequences", type=int, default=1, show_default=True)
@click.option("--type", "type_", required=True)
@click.option("--json", "as_json", is_flag=True)
def size(**_: Any) -> None:
    """Print the bytes of a cache."""
    _not_yet("size")


@kv.command()
@click.option("--type", "type_", required=True)
@click.option("--json", "as_json", is_flag=True)
def codec(**_: Any) -> None:
    """Print a format's error on Gaussian, outlier and biased-key data."""
    _not_yet("codec")


@kv.command()
def pick() -> None:
    """Rank cache types for a model and a stack."""
    _not_yet("pick")


@kv.command()
def quality() -> None:
    """Measure what a cache type does to a model's answers."""
    _not_yet("quality")
