"""What one engagement folder holds, read once, and which of its runs the report rests on."""

from dataclasses import dataclass
from pathlib import Path

from teardown.engagement import Engagement, sha256_file
from teardown.errors import UsageError
from teardown.records import (
    Attribution,
    Bundle,
    Environment,
    Pair,
    Plan,
    Run,
    Trial,
    VerdictRecord,
    read,
)
from teardown.records.codec import R
from teardown.settings import Settings

BEFORE = "before"
AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """Every record of one engagement. sha256: of each record file, by path in the folder.

    unfinished: runs that have a folder but no record yet.
    """

    settings: Settings
    runs: list[Run]
    environments: dict[str, Environment]
    attribution: Attribution | None
    plan: Plan | None
    trials: list[Trial]
    verdict: VerdictRecord | None
    bundle: Bundle | None
    unfinished: list[str]
    sha256: dict[str, str]

    @property
    def run_by_id(self) -> dict[str, Run]:
        """The runs by their id."""
        return {run.run: run for run in self.runs}

    @property
    def proof(self) -> Trial | None:
        """The trial that the verdict names, else the last proof that is done."""
        if self.verdict is not None and self.verdict.proof_trial is not None:
            named = [t for t in self.trials if t.trial == self.verdict.proof_trial]
            if named:
                return named[0]
        done = [t for t in self.trials if t.kind == "proof" and t.state == "done"]
        return max(done, key=lambda t: (t.started_unix_s, t.trial)) if done else None

    @property
    def proof_pairs(self) -> list[Pair]:
        """The pairs of the proof that count; those set aside are left out."""
        return [p for p in self.proof.pairs if p.excluded is None] if self.proof else []

    @property
    def before_runs(self) -> list[Run]:
        """The runs of the original stack that count, of the proof where there is one."""
        return self._side([p.run_before for p in self.proof_pairs], BEFORE)

    @property
    def after_runs(self) -> list[Run]:
        """The runs of the changed stack that count, of the proof where there is one."""
        return self._side([p.run_after for p in self.proof_pairs], AFTER)

    def _side(self, ids: list[str], stack: str) -> list[Run]:
        by_id = self.run_by_id
        paired = [by_id[i] for i in dict.fromkeys(ids) if i in by_id]
        return paired or [run for run in self.runs if run.stack == stack]

    @property
    def basis(self) -> list[Run]:
        """The runs whose validity decides whether the sentence may be said."""
        ids = [r.run for r in (*self.before_runs, *self.after_runs)]
        if self.attribution is not None:
            ids.insert(0, self.attribution.run)
        by_id = self.run_by_id
        return [by_id[i] for i in dict.fromkeys(ids) if i in by_id] or self.runs


def read_dossier(folder: Path) -> Dossier:
    """Read the records under `folder`; UsageError when there is no finished run, or a bad file."""
    engagement = Engagement(folder)
    settings = engagement.settings()
    sha256: dict[str, str] = {}

    def optional(cls: type[R], path: Path) -> R | None:
        if not path.is_file():
            return None
        record = read(cls, path)
        sha256[path.relative_to(folder).as_posix()] = sha256_file(path)
        return record

    runs: list[Run] = []
    environments: dict[str, Environment] = {}
    unfinished: list[str] = []
    for run_id in engagement.run_ids():
        run = optional(Run, engagement.run_dir(run_id) / "run.json")
        if run is None:
            unfinished.append(run_id)
            continue
        runs.append(run)
        environment = optional(Environment, engagement.run_dir(run_id) / "environment.json")
        if environment is not None:
            environments[run.run] = environment
    if not runs:
        raise UsageError(f"{folder} holds no finished run; `teardown measure {folder}` makes one")
    return Dossier(
        settings=settings,
        runs=runs,
        environments=environments,
        attribution=optional(Attribution, engagement.attribution_path),
        plan=optional(Plan, engagement.plan_path),
        trials=[
            trial
            for path in sorted(engagement.trials_dir.glob("*/trial.json"))
            if (trial := optional(Trial, path)) is not None
        ],
        verdict=optional(VerdictRecord, engagement.verdict_path),
        bundle=optional(Bundle, engagement.bundle_path),
        unfinished=unfinished,
        sha256=dict(sorted(sha256.items())),
    )
