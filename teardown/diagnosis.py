"""Gather everything known about one run and attribute it: records in, one record out."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import msgspec

from teardown.classify.attribute import attribute
from teardown.classify.data import HardwareFacts, ModelFacts, RunData, Scrape
from teardown.classify.facts import facts_of_config, facts_of_gguf
from teardown.classify.hardware import hardware_of, probe_cpu
from teardown.engagement import Engagement, write_atomic
from teardown.engines import engine_by_name
from teardown.errors import RunInvalid, TeardownError, UsageError
from teardown.load.summary import last_attempts
from teardown.load.table import read_requests
from teardown.measure import prompts_file, workload_named
from teardown.records import Attribution, Run, Schedule, read
from teardown.runs import RUN_FILE, TABLE_FILE, finished_runs
from teardown.settings import HardwareSettings, Settings
from teardown.workload.levels import level_named
from teardown.workload.prompts import read_prompts, reusable_ratio
from teardown.workload.shapes import PromptShapes


def valid_runs(engagement: Engagement, stack: str, workload: str | None = None) -> list[Run]:
    """Return the finished runs of `stack` that are not invalid, oldest first."""
    return [
        run
        for run in finished_runs(engagement)
        if run.stack == stack
        and workload in (None, run.workload)
        and run.validity.verdict != "invalid"
    ]


def newest_run(engagement: Engagement, run_id: str | None) -> Run:
    """Return the named run, or the newest valid run of stack `before` of the first workload."""
    if run_id is not None:
        path = engagement.run_dir(run_id) / RUN_FILE
        if run_id not in engagement.run_ids() or not path.exists():
            known = ", ".join(engagement.run_ids()) or "none yet"
            raise UsageError(f"there is no finished run {run_id!r}; runs: {known}")
        return read(Run, path)
    loads = engagement.settings().workloads
    every = valid_runs(engagement, "before")
    runs = [r for r in every if loads and level_named(loads[0], r.workload)] or every
    runs = runs or valid_runs(engagement, "imported")
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
    model = model_facts(run, folder)
    if model is None:
        absent["model"] = f"the files of {run.target.model} are not on this host"
    hardware = hardware_facts(engagement, settings, folder)
    if hardware is None:
        absent["hardware"] = "neither a GPU nor a measured read bandwidth is known"
    return RunData(
        run=run,
        requests=last_attempts(read_requests(folder / TABLE_FILE)),
        scrapes=_scrapes(folder, run, absent),
        model=model,
        hardware=hardware,
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
        if engagement.shapes_path(run.workload).exists():
            return read(PromptShapes, engagement.shapes_path(run.workload)).reusable_ratio
        # a folder of before the shapes were kept
        schedule = read(Schedule, engagement.schedule_path(run.workload))
        load = workload_named(engagement.settings(), run.workload)[0]
        prompts = {p.index: p for p in read_prompts(prompts_file(engagement, load))}
    except TeardownError:
        return None
    return reusable_ratio([prompts[r.prompt] for r in schedule.requests])


def model_facts(run: Run, folder: Path) -> ModelFacts | None:
    """Return what the run's model costs to read; None where its files are not on this host.

    folder: the run's own, where the config.json of an imported run is kept.
    """
    path = Path(run.target.model)
    options = {**run.target.options, **run.target.effective}
    if path.is_file():
        return facts_of_gguf(path, options)
    for config in (path / "config.json", folder / "model_config.json"):
        if config.is_file():
            return facts_of_config(json.loads(config.read_text(encoding="utf-8")), options)
    return None


def hardware_facts(
    engagement: Engagement, settings: Settings, folder: Path
) -> HardwareFacts | None:
    """Return the engine's device: the settings' word, else NVML's, else the measured host."""
    asked = settings.hardware if isinstance(settings.hardware, HardwareSettings) else None
    host = folder / "host.json"
    names = None
    if host.exists():
        names = json.loads(host.read_text(encoding="utf-8")).get("gpu_names") or None
    found = hardware_of(asked, names)
    if found is None and engagement.hardware_path.exists():
        return msgspec.json.decode(engagement.hardware_path.read_bytes(), type=HardwareFacts)
    return found


def probe_hardware(engagement: Engagement, settings: Settings, model: str) -> None:
    """Measure this host's read bandwidth once, while the engine is idle; kept in the folder.

    Only where the engine runs on this host's CPU: `settings.hardware` is auto and there is no GPU.
    """
    from teardown.observe.gpu import Gpus

    if engagement.hardware_path.exists() or isinstance(settings.hardware, HardwareSettings):
        return
    if settings.access.host == "none" or Gpus(wanted=True).reason is None:
        return
    path = Path(model)
    facts = probe_cpu(float(path.stat().st_size) if path.is_file() else None)
    write_atomic(engagement.hardware_path, json.dumps(msgspec.to_builtins(facts), indent=1) + "\n")


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
