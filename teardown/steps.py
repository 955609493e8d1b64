"""The steps behind the verbs: each takes the folder, reads records, writes records."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from teardown.begin import begin_for_measure
from teardown.capacity import measure_workload, result_text
from teardown.diagnosis import diagnose_run, newest_run, probe_hardware
from teardown.engagement import Engagement, write_atomic
from teardown.errors import FeatureMissing, TargetError, UsageError
from teardown.limits import bill_of, bill_text
from teardown.load.config import Progress
from teardown.load.table import read_requests
from teardown.measure import Job, measure_run, prepare, workload_named
from teardown.records import Attribution, Request, Run, to_json
from teardown.runs import TABLE_FILE, finished_runs
from teardown.settings import Settings
from teardown.targets import make_target
from teardown.targets.protocol import Target
from teardown.ui import Console
from teardown.workload_settings import check_workload


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Engagement, Settings]]:
    """Hold the engagement for one verb; its manifest is written at the end, on any exit."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; `teardown init {folder} --url URL` begins one")
    engagement = Engagement(folder)
    settings = engagement.settings()
    with engagement.lock():
        try:
            yield engagement, settings
        finally:
            engagement.write_manifest()


@contextmanager
def running(engagement: Engagement, settings: Settings, console: Console) -> Iterator[Target]:
    """Have the client's stack at hand; put its original configuration back on any exit."""
    target = make_target(settings, engagement, ask=_ask, tell=console.say)
    for done in target.recover():
        console.say(done)
    try:
        yield target
    finally:
        try:
            target.restore()
        finally:
            target.stop()


def _ask(question: str) -> str:
    """Ask the operator; without a terminal nobody can answer, which is a refusal."""
    if not sys.stdin.isatty():
        raise FeatureMissing(f"this step asks {question!r}, and there is no terminal to answer on")
    answer: str = click.prompt(question, default="", show_default=False, err=True)
    return answer


def measure_step(
    folder: Path, options: dict[str, Any], console: Console | None = None
) -> list[Run]:
    """Measure workloads of `folder`, writing its engagement.yaml first where --url is given.

    options: as of the verb `measure`; `workloads` names several, all of them where neither is set.
    """
    console = console or Console()
    if options.get("url"):
        begin_for_measure(folder, options)
    with opened(folder) as (engagement, settings):
        names = options.get("workloads") or [options.get("workload")]
        loads = [load for name in names for load in workload_named(settings, name)]
        if options.get("regime"):
            loads = [replace(load, regime=options["regime"]) for load in loads]
            for load in loads:
                check_workload(load, "--regime")
        with running(engagement, settings, console) as target:
            runs = []
            target.start()
            if target.pid() is not None:
                probe_hardware(engagement, settings, target.original().model)
            for number, load in enumerate(loads, 1):
                job = Job(
                    engagement=engagement,
                    settings=settings,
                    load=load,
                    target=target,
                    stack=options.get("stack") or "before",
                    workers=options.get("workers") or 1,
                    listen=options.get("listen"),
                    more_runs=number < len(loads),
                )
                measured = measure_workload(job, announced(console))
                runs += measured.runs
                if measured.result is not None:
                    console.say(result_text(measured.result))
            return runs


def announced(console: Console) -> Callable[[Job], Run]:
    """Return a function that says what is about to be sent, and then measures it."""

    def measure(job: Job) -> Run:
        console.step(announcement(job))
        run = measure_run(job, showing(console))
        console.run_made()
        return run

    return measure


def announcement(job: Job) -> str:
    """Return what is about to be sent: arrivals, requests, tokens, minutes and money."""
    schedule, prompts, _ = prepare(job.engagement, job.load)
    bill = bill_of(schedule, prompts, job.settings, finished_runs(job.engagement))
    last = max(r.intended_s or 0.0 for r in schedule.requests)
    num_sessions = len({r.session for r in schedule.requests})
    if schedule.is_open:
        rate = "" if schedule.rate_per_s is None else f" at {schedule.rate_per_s:.4g} a second"
        name = "open loop" if schedule.kind == "open" else schedule.kind
        how = f"{name}{rate} over {last:.0f} s"
    elif schedule.kind == "voice":
        how = f"{schedule.concurrency} calls at once, begun over {last:.0f} s"
    elif schedule.is_live and last > 0:
        how = f"{num_sessions} conversations begun over {last:.0f} s"
    elif schedule.is_live:
        how = f"{num_sessions} conversations of {schedule.concurrency} users"
    else:
        how = f"closed loop of {schedule.concurrency} users"
    return f"Measure {schedule.workload}, {how}: {bill_text(bill)}"


def showing(console: Console) -> Any:
    """Return a progress callback that draws on `console`."""

    def show(progress: Progress) -> None:
        if progress.says:
            console.say(progress.says)
            return
        failed = f", {progress.errors} failed" if progress.errors else ""
        console.progress(
            f"{progress.done} of {progress.total} answered, {progress.in_flight} in flight{failed}"
        )

    return show


def worker_step(join: str, folder: Path | None, wait_s: float) -> int:
    """Be a load worker of the master at `join`; return how many runs it took part in.

    Journals are kept in `folder`, or in a new folder that goes when the master has everything.
    """
    from teardown.load.run import run_worker

    console = Console()
    try:
        own = Path(tempfile.mkdtemp(prefix="teardown-worker-")) if folder is None else folder
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TargetError(f"{error.filename} cannot be made: {error.strerror}") from error
    console.step(f"Wait for a run at {join}, for at most {wait_s:g} s")
    try:
        return run_worker(join, own, wait_s, showing(console))
    finally:
        if folder is None:
            with contextlib.suppress(OSError):  # a journal is left: the worker has said so
                own.rmdir()


def requests_of(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """Return the requests of a run as documents; those of an unfinished run from its journal."""
    engagement = Engagement(folder)
    if run_id not in engagement.run_ids():
        known = ", ".join(engagement.run_ids()) or "none yet"
        raise UsageError(f"there is no run {run_id!r} in {folder}; runs: {known}")
    table = engagement.run_dir(run_id) / TABLE_FILE
    requests: list[Request]
    if table.exists():
        requests = read_requests(table)
    else:
        from teardown.runs import journal_of

        journal = journal_of(engagement.run_dir(run_id))
        requests = [*journal.superseded, *journal.requests] if journal else []
    return [msgspec.to_builtins(request) for request in requests]


def diagnose_step(folder: Path, run_id: str | None) -> Attribution:
    """Attribute one run and write attribution.json."""
    with opened(folder) as (engagement, settings):
        run = newest_run(engagement, run_id)
        attribution = diagnose_run(engagement, settings, run)
        write_atomic(engagement.attribution_path, to_json(attribution))
        return attribution
