"""Writes the runbook of an engagement; `teardown emit` calls it by name after the bundle."""

from pathlib import Path

from runbooks.render import render_runbook
from teardown.engagement import Engagement, write_atomic
from teardown.records import Bundle, read


def write_runbook(folder: Path) -> list[str]:
    """Write out/runbook/ of the engagement in `folder` from out/bundle.json; return the paths.

    Paths are relative to `out/`. UsageError when the bundle or the settings cannot be read.
    """
    engagement = Engagement(folder)
    bundle = read(Bundle, engagement.bundle_path)
    pages = render_runbook(bundle, engagement.settings().client)
    for name, text in pages.items():
        write_atomic(engagement.out_dir / name, text)
    return sorted(pages)
