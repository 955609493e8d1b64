"""The step behind `emit`: the accepted stack as files, their monitoring and their runbook."""

import importlib
import json
from pathlib import Path

import click

from iac.deployment import Deployment, deployment_of
from iac.emit import emit_document, emitted_files, notes_of
from teardown.engagement import Engagement, write_atomic
from teardown.errors import FeatureMissing, TargetError, UsageError
from teardown.records import VerdictRecord, read


def emit_step(folder: Path, as_json: bool) -> None:
    """Write the accepted stack as systemd, Compose, Terraform, monitoring and runbook to DIR/out.

    Reads verdict.json and engagement.yaml. Where no change helped, the original stack is written.
    """
    engagement = Engagement(folder)
    settings = engagement.settings()
    if not engagement.verdict_path.exists():
        raise UsageError(f"{engagement.verdict_path} does not exist; run `teardown tune {folder}`")
    verdict = read(VerdictRecord, engagement.verdict_path)
    deployment = deployment_of(verdict, settings, folder)
    files = emitted_files(deployment, settings.target)
    with engagement.lock():
        paths = _write(engagement, files)
        engagement.write_manifest()
    if deployment.launch is None:
        raise FeatureMissing(_cannot_start(deployment, paths, engagement.out_dir))
    notes = notes_of(deployment)
    if as_json:
        click.echo(emit_document(paths, deployment.config_sha256, notes))
    else:
        _print(paths, deployment, notes, folder)


def _write(engagement: Engagement, files: dict[str, str]) -> list[str]:
    """Write `files` and the runbook, remove what an earlier emit left; return all paths."""
    if not files:
        return []
    out = engagement.out_dir
    stale = _files_of_bundle(engagement.bundle_path)
    for name, text in files.items():
        write_atomic(out / name, text)
    # iac and runbooks stand side by side and do not know each other: the bundle lies between
    # them. As for every verb, the function is found by its name when it is called.
    runbooks = importlib.import_module("runbooks.verbs")
    pages: list[str] = runbooks.write_runbook(engagement.folder)
    written = sorted({*files, *pages})
    for name in sorted(stale - set(written)):
        _remove(out, name)
    return written


def _files_of_bundle(path: Path) -> set[str]:
    """Return the files that the bundle at `path` lists; none where there is no readable one."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {str(name) for name in listed} if isinstance(listed, list) else set()


def _remove(out: Path, name: str) -> None:
    """Remove one file of an earlier emit and the folders that this empties, below `out` alone."""
    path = (out / name).resolve()
    if not path.is_relative_to(out.resolve()) or not path.is_file():
        return
    try:
        path.unlink()
        for parent in path.parents:
            if parent == out.resolve() or any(parent.iterdir()):
                return
            parent.rmdir()
    except OSError as error:
        raise TargetError(f"{path} could not be removed: {error.strerror or error}") from error


def _cannot_start(deployment: Deployment, paths: list[str], out: Path) -> str:
    written = f"monitoring and runbook were written to {out}" if paths else "nothing was written"
    return (
        f"verdict.json has no launch: {deployment.stack.engine} is an endpoint that the kit cannot "
        f"start, so only what watches it can be emitted ({written}); set `target.launch` in "
        "engagement.yaml and tune again to get the rest"
    )


def _print(paths: list[str], deployment: Deployment, notes: list[str], folder: Path) -> None:
    for name in paths:
        click.echo(f"out/{name}")
    click.echo(f"config sha256 {deployment.config_sha256}")
    for note in notes:
        click.echo(f"note: {note}")
    click.echo(f"next: teardown report {folder}")
