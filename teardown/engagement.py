"""The engagement folder: where each record lies, written whole or not at all.

engagement.yaml  workload/<name>.json  runs/<id>/  attribution.json  plan.json
trials/<id>/trial.json  verdict.json  oracle/  out/  manifest.json
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from teardown.errors import TargetError, UsageError
from teardown.settings import Settings, load_settings

SETTINGS_FILE = "engagement.yaml"
MANIFEST = "manifest.json"
# The journal and live logs change while the kit runs; the lock and the settings are not records.
UNHASHED = {SETTINGS_FILE, MANIFEST, ".lock"}


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` whole or not at all (temporary name, fsync, rename).

    TargetError when the disk is full or the folder cannot be written; the old file then stays.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TargetError(
            f"{path} could not be written ({error.strerror or error}); what was measured is kept"
        ) from error


def sha256_file(path: Path) -> str:
    """Return the hexadecimal SHA-256 of the file at `path`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Engagement:
    """One folder. Paths are derived here and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def settings_path(self) -> Path:
        """The path of engagement.yaml."""
        return self.folder / SETTINGS_FILE

    def settings(self) -> Settings:
        """Read engagement.yaml; UsageError when it is missing or wrong."""
        return load_settings(self.settings_path)

    def prompts_path(self, name: str) -> Path:
        """Return a prompts file as named in the settings, relative to the folder."""
        path = Path(name).expanduser()
        return path if path.is_absolute() else self.folder / path

    def schedule_path(self, workload: str) -> Path:
        """Return where the schedule of `workload` is kept."""
        return self.folder / "workload" / f"{_safe(workload)}.json"

    def shapes_path(self, workload: str) -> Path:
        """Return where the lengths and block hashes of the prompts of `workload` are kept."""
        return self.folder / "workload" / f"{_safe(workload)}.shapes.json"

    def made_prompts_path(self, workload: str) -> Path:
        """Return where prompts that the kit made for `workload` are kept; no client's text."""
        return self.folder / "workload" / f"{_safe(workload)}.prompts.jsonl"

    @property
    def capacity_path(self) -> Path:
        """The path of the record of what stacks carry."""
        return self.folder / "capacity.json"

    @property
    def runs_dir(self) -> Path:
        """The folder of runs."""
        return self.folder / "runs"

    def run_dir(self, run: str) -> Path:
        """Return the folder of one run."""
        return self.runs_dir / run

    def run_ids(self) -> list[str]:
        """Return the ids of all runs, oldest first, finished or not."""
        if not self.runs_dir.is_dir():
            return []
        return sorted(p.name for p in self.runs_dir.iterdir() if p.is_dir())

    def new_run_id(self, stack: str, workload: str) -> str:
        """Return an id that sorts by age and says what it is, such as `r0003-before-chat`."""
        numbers = [int(m[1]) for r in self.run_ids() if (m := re.match(r"r(\d+)", r))]
        return f"r{max(numbers, default=0) + 1:04d}-{_safe(stack)}-{_safe(workload)}"

    @property
    def hardware_path(self) -> Path:
        """The path of the measured host, where the engine runs on its CPU."""
        return self.folder / "hardware.json"

    @property
    def attribution_path(self) -> Path:
        """The path of the diagnosis."""
        return self.folder / "attribution.json"

    @property
    def plan_path(self) -> Path:
        """The path of the plan."""
        return self.folder / "plan.json"

    @property
    def verdict_path(self) -> Path:
        """The path of the verdict."""
        return self.folder / "verdict.json"

    @property
    def trials_dir(self) -> Path:
        """The folder of trials."""
        return self.folder / "trials"

    def trial_path(self, trial: str) -> Path:
        """Return the path of one trial's record."""
        return self.trials_dir / trial / "trial.json"

    @property
    def oracle_dir(self) -> Path:
        """The folder of reference answers: the only place where text is kept."""
        return self.folder / "oracle"

    @property
    def target_dir(self) -> Path:
        """The folder where the local target keeps its log, process id and present options."""
        return self.folder / "target"

    @property
    def forgotten_path(self) -> Path:
        """The path of the record that the texts were deleted."""
        return self.folder / "forgotten.json"

    @property
    def out_dir(self) -> Path:
        """The folder of everything that the client keeps."""
        return self.folder / "out"

    @property
    def bundle_path(self) -> Path:
        """The path of the record of what was emitted."""
        return self.out_dir / "bundle.json"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for one kit at a time; TargetError when another one runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise TargetError(
                    f"another teardown works in {self.folder}; wait for it or end it"
                ) from error
            yield

    def write_manifest(self) -> None:
        """Write the SHA-256 of every file but engagement.yaml."""
        hashes = {
            str(path.relative_to(self.folder)): sha256_file(path)
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.name not in UNHASHED and not path.name.endswith(".tmp")
        }
        document = {"schema": "teardown.manifest/1", "sha256": hashes}
        write_atomic(self.folder / MANIFEST, json.dumps(document, indent=1) + "\n")


def _safe(name: str) -> str:
    """Return `name` as a part of a file name: letters, digits, dot and hyphen."""
    cleaned = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")
    if not cleaned:
        raise UsageError(f"{name!r} cannot be used as a name; use letters and digits")
    return cleaned
