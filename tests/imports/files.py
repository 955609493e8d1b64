"""Where the fixtures lie, and the import as a test calls it."""

from pathlib import Path
from typing import Any

from teardown.imports.entry import Asked, ImportedTraffic, import_path
from teardown.imports.keep import ImportedRun

FIXTURES = Path(__file__).parent / "fixtures"
RECORDINGS = Path(__file__).parent.parent / "recordings" / "vllm-0.26-h200"


def imported_runs(path: Path, folder: Path, **asked: Any) -> list[ImportedRun]:
    found = import_path(path, folder, Asked(**asked))
    assert isinstance(found, list)
    return found


def imported_run(path: Path, folder: Path, **asked: Any) -> ImportedRun:
    (found,) = imported_runs(path, folder, **asked)
    return found


def imported_log(path: Path, folder: Path, mapping: str | None = None) -> ImportedTraffic:
    found = import_path(path, folder, Asked(mapping=mapping))
    assert isinstance(found, ImportedTraffic)
    return found
