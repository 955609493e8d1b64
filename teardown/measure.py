"""Measure one workload on one stack: schedule, load, watching, certificate, record.

A run that was cut is resumed: what was answered is kept, what was in flight is `aborted` and sent
again as a further attempt. The journal becomes the table only when the run is complete.
"""

import datetime as dt
import json
import secrets
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from teardown.credentials import api_key
from teardown.engagement import Engagement, write_atomic
from teardown.errors import EngineFailed, TeardownError, UsageError
from teardown.limits import bill_of, is_open, refuse_beyond
from teardown.live import JournalTail, LiveGuard, Ours, Shown
from teardown.load.certificate import ERROR_BUDGET
from teardown.load.config import LoadConfig, Progress, StopIf
from teardown.load.expected import CALIBRATION_FILE, calibration_for
from teardown.load.journal import Journal
from teardown.load.run import run_load
from teardown.observe.watch import Watch, WatchConfig
from teardown.records import (
    Run,
    Schedule,
    Stack,
    to_json,
)
from teardown.runs import (
    BEGUN_FILE,
    JOURNAL_FILE,
    RUN_FILE,
    Begun,
    finish,
    finished_runs,
    journal_of,
)
from teardown.settings import Settings, WorkloadSettings
from teardown.targets.forward import refuse_port_forward
from teardown.targets.protocol import Target
from teardown.workload.levels import level_named, levels_of
from teardown.workload.made import made_prompts
from teardown.workload.prompts import Prompt, read_prompts, reusable_ratio
from teardown.workload.schedule import build_schedule, schedule_sha256
from teardown.workload.shapes import BLOCK_CHARS, PromptShapes, block_key, shapes_of

# Stacks whose unfinished runs `measure` and `run` go on with; a trial makes its run again.
RESUMED = ("before", "after")
OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run to make: which workload, on which stack, under which name.

    workers, listen, more_runs: who sends it, as in `LoadConfig`.
    """

    engagement: Engagement
    settings: Settings
    load: WorkloadSettings
    target: Target
    stack: str
    resume: bool = True
    workers: int = 1
    listen: str | None = None
    more_runs: bool = False


def prepare(engagement: Engagement, load: WorkloadSettings) -> tuple[Schedule, list[Prompt], Path]:
    """Return the schedule of `load`, written to the folder, its prompts and their file."""
    path = prompts_file(engagement, load)
    if engagement.forgotten_path.exists() and not path.exists():
        raise UsageError(
            f"{path.name} was deleted by `teardown forget`; put the file back to measure again"
        )
    prompts = read_prompts(path)
    schedule = build_schedule(load, prompts, path)
    write_atomic(engagement.schedule_path(load.name), to_json(schedule))
    _keep_shapes(engagement, schedule, prompts)
    return schedule, prompts, path


def _keep_shapes(engagement: Engagement, schedule: Schedule, prompts: list[Prompt]) -> None:
    """Write what may be kept of the prompts for good; once for each file and level of privacy."""
    privacy = engagement.settings().privacy
    key = block_key(engagement.schedule_path(schedule.workload).parent)
    by_index = {p.index: p for p in prompts}
    shapes = PromptShapes(
        workload=schedule.workload,
        prompts_sha256=schedule.prompts_sha256,
        block_chars=BLOCK_CHARS,
        reusable_ratio=reusable_ratio([by_index[r.prompt] for r in schedule.requests]),
        prompts=shapes_of(prompts, privacy, key),
    )
    write_atomic(engagement.shapes_path(schedule.workload), to_json(shapes))


def prompts_file(engagement: Engagement, load: WorkloadSettings) -> Path:
    """Return the prompts file of `load`: the client's, or one that the kit makes in the folder."""
    text = made_prompts(load, engagement.folder)
    if text is None:
        return engagement.prompts_path(load.prompts or "")
    path = engagement.made_prompts_path(load.name)
    write_atomic(path, text)
    return path


def measure_run(job: Job, on_progress: OnProgress) -> Run:
    """Send the schedule and return the finished run, also when it is invalid.

    Errors: EngineFailed when the stack died (what was answered is kept as an invalid run),
    TargetError where a port-forward lies in between or the load is beyond what the client can carry
    on this host, Interrupted on Ctrl-C (the journal stays; the next call resumes it).
    """
    schedule, prompts, prompts_path = prepare(job.engagement, job.load)
    runs = finished_runs(job.engagement)
    bill = bill_of(schedule, prompts, job.settings, runs)
    refuse_beyond(job.settings, schedule, bill, runs, dt.datetime.now())
    job.target.start()
    refuse_port_forward(job.target.url)
    stack = job.target.read_back()
    prompt_bytes = round(statistics.median(len(p.text.encode()) for p in prompts))
    calibration = calibration_for(job.engagement, schedule, prompt_bytes, job.workers)
    run_id, begun = _begin(job, schedule, stack)
    folder = job.engagement.run_dir(run_id)
    failure: TeardownError | None = None
    notes: list[str] = []
    config = _load_config(job, schedule, prompts_path, folder, begun)
    if config is not None:
        if calibration is not None:
            write_atomic(folder / CALIBRATION_FILE, to_json(calibration))
        try:
            _warm_up(job, config)
            with Watch(_watch_config(job), folder):
                notes = _send(job, schedule, config, on_progress)
        except EngineFailed as error:
            failure = error
    died = getattr(job.target, "died", lambda: None)()
    log = job.target.log_text()
    run, requests = finish(
        job.engagement, job.settings, schedule, prompts, run_id, begun, log, notes
    )
    if died or failure:
        answered = sum(r.status == "ok" for r in requests)
        raise EngineFailed(
            f"{died or failure}; {answered} of {len(schedule.requests)} requests were answered "
            f"and are kept in runs/{run_id}"
        )
    return run


def _send(job: Job, schedule: Schedule, config: LoadConfig, on_progress: OnProgress) -> list[str]:
    """Send what is left, under the eyes of what the client allows; return what was not watched."""
    limits = job.settings.limits
    shown = Shown()
    tail = JournalTail(Path(config.journal_path))
    most = 0 if schedule.is_open else schedule.concurrency
    guard = LiveGuard(
        engine=read_engine(job),
        urls=job.target.metrics_urls(),
        rule=limits.stop_if,
        ours=lambda: Ours(max(shown.num_in_flight, most), tail.answered()),
    )

    def look() -> str | None:
        if not is_open(limits, dt.datetime.now()):
            return f"limits.window ({limits.window}) has ended"
        return guard.look() if guard.is_needed else None

    run_load(config, shown.then(on_progress), stop_when=look)
    return sorted(guard.notes)


def _begin(job: Job, schedule: Schedule, stack: Stack) -> tuple[str, Begun]:
    """Return the run to work on: an unfinished one of this schedule and stack, or a new one."""
    sha = schedule_sha256(schedule)
    if job.resume:
        for run_id in reversed(job.engagement.run_ids()):
            folder = job.engagement.run_dir(run_id)
            if (folder / RUN_FILE).exists() or not (folder / BEGUN_FILE).exists():
                continue
            begun = msgspec.json.decode((folder / BEGUN_FILE).read_bytes(), type=Begun)
            if begun.stack == job.stack and begun.schedule_sha256 == sha:
                return run_id, begun
    begun = Begun(
        stack=job.stack,
        workload=job.load.name,
        schedule_sha256=sha,
        salt=secrets.token_hex(4),
        regime=job.load.regime,
        target=stack,
    )
    run_id = job.engagement.new_run_id(job.stack, job.load.name)
    write_atomic(
        job.engagement.run_dir(run_id) / BEGUN_FILE,
        json.dumps(msgspec.to_builtins(begun), indent=1) + "\n",
    )
    return run_id, begun


def _load_config(
    job: Job, schedule: Schedule, prompts_path: Path, folder: Path, begun: Begun
) -> LoadConfig | None:
    """Return what the load process is to send; None when everything was answered already."""
    journal = journal_of(folder)
    done = journal.finished if journal else []
    if schedule.is_live:
        done = whole_sessions(schedule, done, journal)
    if journal and len(done) >= len(schedule.requests):
        return None
    attempts = journal.attempts if journal else []
    settings = job.settings
    return LoadConfig(
        url=job.target.url,
        model=job.target.model,
        schedule_path=str(job.engagement.schedule_path(job.load.name)),
        prompts_path=str(prompts_path),
        salt=begun.salt if job.load.regime != "production" else None,
        salt_field="cache_salt" if read_engine(job) == "vllm" else "prompt",
        journal_path=str(folder / JOURNAL_FILE),
        result_path=str(folder / "load.json"),
        timeout_s=job.load.timeout_s,
        api_key_env=settings.target.api_key_env,
        api_key_file=settings.target.api_key_file,
        extra_headers=dict(settings.target.headers),
        tokenizer=settings.target.tokenizer,
        extra_body=dict(job.load.extra_body),
        skip=sorted(done),
        attempt=len(attempts) + 1,
        time_base_s=attempts[-1].last_s if attempts else 0.0,
        stop_if=StopIf(error_ratio=error_budget(settings)),
        max_requests_per_s=settings.limits.max_requests_per_s,
        workers=job.workers,
        listen=job.listen,
        more_runs=job.more_runs,
    )


def whole_sessions(schedule: Schedule, done: list[str], journal: Journal | None) -> list[str]:
    """Return the requests of sessions that are over: answered to the end, or broken off by a
    failure. One that was cut in the middle begins again, because its answers are not kept.
    """
    failed = {r.session for r in journal.requests if r.is_failed} if journal else set()
    aborted = {r.session for r in journal.requests if r.status == "aborted"} if journal else set()
    answered = set(done)
    open_ = {r.session for r in schedule.requests if r.request_id not in answered}
    going_on = (open_ - failed) | aborted
    return [r.request_id for r in schedule.requests if r.session not in going_on]


def error_budget(settings: Settings) -> float:
    """Return the share of failed requests at which a run stops and is invalid."""
    asked = settings.limits.stop_if.error_ratio
    return ERROR_BUDGET if asked is None else asked


def read_engine(job: Job) -> str:
    """Return the engine of the job's target, as the target knows it."""
    return job.target.original().engine


def _warm_up(job: Job, config: LoadConfig) -> None:
    """Ask two short questions under another salt, so that nothing is measured for the first time.

    `production` measures as found.
    """
    if job.load.regime == "production":
        return
    from teardown.http import post_json

    path = _endpoint_of(Path(config.prompts_path))
    key = api_key(config.api_key_env, config.api_key_file)
    for number in range(2):
        text = f"warm-up {config.salt} {number}: hello"
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
        if path == "/responses":
            asked = {"input": text, "max_output_tokens": 16}  # the least that OpenAI's takes
        elif path == "/completions":
            asked = {"prompt": text, "max_tokens": 4}
        body = {"model": config.model, "temperature": 0, **asked}
        post_json(config.url + path, body, timeout_s=600.0, api_key=key)


def _endpoint_of(prompts_path: Path) -> str:
    """Return the endpoint of the first prompt: a stack may serve one alone."""
    first = read_prompts(prompts_path)[0].body
    by_key = {"messages": "/chat/completions", "prompt": "/completions", "input": "/responses"}
    return next(path for key, path in by_key.items() if key in first)


def _watch_config(job: Job) -> WatchConfig:
    access = job.settings.access
    return WatchConfig(
        metrics_urls=job.target.metrics_urls(),
        pid=job.target.pid() if access.host != "none" else None,
        gpu=access.host != "none",
        interval_s=1.0,
    )


def close_unfinished(engagement: Engagement, settings: Settings) -> list[str]:
    """Make records of runs that a killed kit left in the middle of a trial; return their ids.

    Nothing measured is lost: what was answered is kept, what was in flight is `aborted`, the run is
    invalid. Runs of stacks that `measure` resumes stay open.
    """
    closed = []
    for run_id in engagement.run_ids():
        folder = engagement.run_dir(run_id)
        if (folder / RUN_FILE).exists() or not (folder / BEGUN_FILE).exists():
            continue
        begun = msgspec.json.decode((folder / BEGUN_FILE).read_bytes(), type=Begun)
        if begun.stack in RESUMED:
            continue
        load = workload_named(settings, begun.workload)[0]
        schedule, prompts, _ = prepare(engagement, load)
        finish(engagement, settings, schedule, prompts, run_id, begun, log="")
        closed.append(run_id)
    return closed


def workload_named(settings: Settings, name: str | None) -> list[WorkloadSettings]:
    """Return the named workload or level, or all workloads; UsageError with the names there are."""
    if not settings.workloads:
        raise UsageError("engagement.yaml names no workload; add one under `workloads:`")
    if name is None:
        return list(settings.workloads)
    found = [w for w in settings.workloads if w.name == name]
    found = found or [level for w in settings.workloads if (level := level_named(w, name))]
    if not found:
        levels = [level.name for load in settings.workloads for level in levels_of(load)]
        known = ", ".join(dict.fromkeys([w.name for w in settings.workloads] + levels))
        raise UsageError(f"there is no workload {name!r}; engagement.yaml has {known}")
    return found
