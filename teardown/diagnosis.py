"""Gather everything known about one run and attribute it: records in, one record out."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

from teardown.classify.attribute import attribute
from teardown.classify.data import RunData, Scrape
from teardown.classify.facts import hardware_facts, model_facts
from teardown.engagement import Engagement
from teardown.engines import engine_by_name
from teardown.errors import RunInvalid, TeardownError, UsageError
from teardown.load.summary import last_attempts
from teardown.load.table import read_requests
from teardown.measure import RUN_FILE, TABLE_FILE
from teardown.records import Attribution, Run, Schedule, read
from teardown.settings import Settings
from teardown.workload.prompts import read_prompts, reusable_ratio


def valid_runs(engagement: Engagement, stack: str, workload: str | None = None) -> list[Run]:
    """Return the finished runs of `stack` that are not invalid, oldest first."""
    found = []
    for name in engagement.run_ids():
        path = engagement.run_dir(name) / RUN_FILE
        if not path.exists():
            continue
        run = read(Run, path)
        fits = run.stack == stack and workload in (None, run.workload)
        if fits and run.validity.verdict != "invalid":
            found.append(run)
    return found


def newest_run(engagement: Engagement, run_id: str | None) -> Run:
    """Return the named run, or the newest valid run of stack `before` of the first workload."""
    if run_id is not None:
        path = engagement.run_dir(run_id) / RUN_FILE
        if run_id not in engagement.run_ids() or not path.exists():
            known = ", ".join(engagement.run_ids()) or "none yet"
            raise UsageError(f"there is no finished run {run_id!r}; runs: {known}")
        return read(Run, path)
    loads = engagement.settings().workloads
    runs = valid_runs(engagement, "before", loads[0].name if loads else None)
    runs = runs or valid_runs(engagement, "before")
    if not runs:
        raise UsageError(
            f"there is no valid run of stack `before`; `teardown measure {engagement.folder}` "
            "makes one"
        )
    return runs[-1]


def diagnose_run(engagement: Engagement, settings: Settings, run: Run) -> Attribution:
    """Return the attribution of `run`; RunInvalid for a run whose numbers must not be used."""
    if run.validity.verdict == "invalid":
        reasons = "; ".join(f"{r.code}: {r.text}" for r in run.validity.reasons)
        raise RunInvalid(f"{run.run} is invalid ({reasons}), so it is not attributed")
    return attribute(run_data(engagement, settings, run))


def run_data(engagement: Engagement, settings: Settings, run: Run) -> RunData:
    """Return everything that the folder holds about `run`; what is missing is named in `absent`."""
    folder = engagement.run_dir(run.run)
    absent: dict[str, str] = {}
    model = settings.target.launch.model if settings.target.launch else None
    return RunData(
        run=run,
        requests=last_attempts(read_requests(folder / TABLE_FILE)),
        scrapes=_scrapes(folder, run, absent),
        model=model_facts(_model_path(run, model), run.target.effective or run.target.options),
        hardware=hardware_facts(settings.hardware),
        unix_zero_s=run.segments[0].started_unix_s if run.segments else None,
        reusable_tokens_ratio=reuse_of(engagement, run),
        promises=settings.promises,
        host=_host(folder, absent),
        gpu=_gpu(folder, absent),
        absent=absent,
    )


def reuse_of(engagement: Engagement, run: Run) -> float | None:
    """Return the fraction of prompt text that an ideal prefix cache would serve in this run."""
    try:
        schedule = read(Schedule, engagement.schedule_path(run.workload))
        load = next(w for w in engagement.settings().workloads if w.name == run.workload)
        prompts = {p.index: p for p in read_prompts(engagement.prompts_path(load.prompts))}
    except (TeardownError, StopIteration):
        return None
    return reusable_ratio([prompts[r.prompt] for r in schedule.requests])


def _model_path(run: Run, asked: str | None) -> str | None:
    return run.target.model if Path(run.target.model).exists() else asked


def _scrapes(folder: Path, run: Run, absent: dict[str, str]) -> dict[str, list[Scrape]]:
    path = folder / "metrics.jsonl.gz"
    if not path.exists():
        absent["metrics"] = "no metrics page was read during this run"
        return {}
    engine = engine_by_name(run.target.engine)
    by_url: dict[str, list[Scrape]] = {}
    failed = 0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if "text" not in row:
                failed += 1
                continue
            by_url.setdefault(row["url"], []).append(Scrape(row["t"], engine.counters(row["text"])))
    if failed:
        absent["some metrics"] = f"{failed} scrapes got no answer"
    return by_url


def _host(folder: Path, absent: dict[str, str]) -> list[dict[str, Any]]:
    path = folder / "host.json"
    if not path.exists():
        absent["host"] = "the host was not watched"
        return []
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("gpu_reason"):
        absent["gpu"] = str(document["gpu_reason"])
    samples: list[dict[str, Any]] = document.get("samples", [])
    return samples


def _gpu(folder: Path, absent: dict[str, str]) -> list[dict[str, Any]]:
    path = folder / "gpu.csv.gz"
    if not path.exists():
        absent.setdefault("gpu", "no GPU was watched")
        return []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(io.StringIO(file.read())))
