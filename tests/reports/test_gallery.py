"""The gallery: engagements as they were measured still load, hold together and render as kept."""

import hashlib
import json
from pathlib import Path

import pytest

from reports.dossier import read_dossier
from reports.render import render

GALLERY = Path(__file__).parents[2] / "reports" / "gallery"
ENGAGEMENTS = sorted(p.parent for p in GALLERY.glob("*/engagement.yaml"))


def test_the_gallery_is_not_empty() -> None:
    assert ENGAGEMENTS


@pytest.mark.parametrize("folder", ENGAGEMENTS, ids=lambda p: p.name)
def test_every_record_of_a_kept_engagement_is_the_one_in_its_manifest(folder: Path) -> None:
    kept = json.loads((folder / "manifest.json").read_text())["sha256"]
    found = {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("manifest.json", "engagement.yaml", ".lock")
    }
    assert found == kept


@pytest.mark.parametrize("folder", ENGAGEMENTS, ids=lambda p: p.name)
def test_a_kept_engagement_renders_to_the_report_that_lies_beside_it(folder: Path) -> None:
    # When the report changes on purpose: `teardown report reports/gallery/NAME`, and read the diff.
    assert render(read_dossier(folder)) == (folder / "out" / "report.html").read_text()
