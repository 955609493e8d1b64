"""The steps behind `plan` and `tune`: the folder in, plan.json and verdict.json out."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from teardown.diagnosis import model_facts, newest_run, reuse_of, valid_runs
from teardown.engagement import Engagement, write_atomic
from teardown.engines import engine_for_launcher
from teardown.engines.protocol import Launch
from teardown.errors import FeatureMissing
from teardown.load.summary import last_attempts
from teardown.load.table import read_requests
from teardown.measure import Job, close_unfinished, measure_run, workload_named
from teardown.records import (
    Attribution,
    LaunchSpec,
    Plan,
    Run,
    Schedule,
    Stack,
    VerdictRecord,
    read,
    to_json,
)
from teardown.runs import TABLE_FILE
from teardown.settings import HardwareSettings, Settings
from teardown.stats import quantile
from teardown.steps import opened, running, showing
from teardown.ui import Console
from teardown.workload.levels import levels_of
from tuning.context import PlanContext
from tuning.gate import Gate
from tuning.plan import make_plan
from tuning.search import search
from tuning.text import plan_text
from tuning.trial import Bench


def plan_step(folder: Path, console: Console | None = None) -> Plan:
    """Plan candidate changes from the diagnosis and write plan.json."""
    with opened(folder) as (engagement, settings):
        attribution = read(Attribution, engagement.attribution_path)
        plan = make_plan(plan_context(engagement, settings, attribution))
        write_atomic(engagement.plan_path, to_json(plan))
        if console:
            console.say(plan_text(plan))
        return plan


def plan_context(
    engagement: Engagement, settings: Settings, attribution: Attribution
) -> PlanContext:
    """Return what levers may look at, from the records of the diagnosed run."""
    run = newest_run(engagement, attribution.run)
    requests = last_attempts(read_requests(engagement.run_dir(run.run) / TABLE_FILE))
    good = [r for r in requests if not r.is_failed]
    prompt = sorted(r.prompt_tokens for r in good if r.prompt_tokens)
    output = sorted(r.output_tokens for r in good if r.output_tokens)
    both = [r.prompt_tokens + r.output_tokens for r in good if r.prompt_tokens and r.output_tokens]
    cached = [r.cached_tokens for r in good if r.cached_tokens is not None]
    path = engagement.schedule_path(run.workload)
    schedule = read(Schedule, path) if path.exists() else None  # an imported run has none
    hardware = settings.hardware
    facts = model_facts(run, engagement.run_dir(run.run))
    return PlanContext(
        run=run,
        attribution=attribution,
        stack=run.target,
        concurrency=schedule.concurrency if schedule and schedule.kind == "closed" else _peak(run),
        num_cpus=os.cpu_count() or 1,
        prompt_tokens_p50=round(quantile(prompt, 0.5)) if prompt else 0,
        prompt_tokens_p99=round(quantile(prompt, 0.99)) if prompt else 0,
        output_tokens_p50=round(quantile(output, 0.5)) if output else 0,
        output_tokens_max=max(
            (r.max_tokens for r in schedule.requests) if schedule else output, default=0
        ),
        max_context_tokens=max(both, default=0),
        reusable_tokens_ratio=reuse_of(engagement, run),
        cached_tokens_ratio=sum(cached) / sum(prompt) if cached and prompt else None,
        goal=settings.goal,
        gpu=hardware.gpu if isinstance(hardware, HardwareSettings) else None,
        kv_bytes_per_token=facts.kv_bytes_per_token if facts else None,
    )


def _peak(run: Run) -> int:
    window = run.summary.plateau if run.summary else None
    if window is None or window.e2e_s.mean is None or window.requests_per_s is None:
        return 1
    return max(1, round(window.e2e_s.mean * window.requests_per_s))  # Little's law


def tune_step(folder: Path, *, yes: bool, console: Console | None = None) -> VerdictRecord:
    """Try the plan, prove what helps, measure the accepted stack, write verdict.json.

    The original configuration is back when this returns or raises.
    """
    console = console or Console()
    with opened(folder) as (engagement, settings):
        plan = read(Plan, engagement.plan_path)
        if settings.access.restart == "never" or settings.target.kind == "endpoint":
            verdict = _proposed_only(engagement, settings, plan)
            write_atomic(engagement.verdict_path, to_json(verdict))
            return verdict
        _consent(settings, plan, yes)
        with running(engagement, settings, console) as target:
            close_unfinished(engagement, settings)
            load = _planned_load(settings, engagement, plan)
            bench = Bench(
                engagement=engagement,
                settings=settings,
                target=target,
                load=load,
                original=dict(target.original().options),
                on_progress=showing(console),
                console=console,
            )
            verdict = search(bench, plan, Gate(), console)
            verdict = _with_launch(settings, verdict)
            if verdict.accepted is not None:
                _measure_after(bench, verdict.accepted, console)
        write_atomic(engagement.verdict_path, to_json(verdict))
        return verdict


def _consent(settings: Settings, plan: Plan, yes: bool) -> None:
    if yes:
        return
    restarts = 2 * len(plan.candidates) + 2 * settings.budgets.pairs
    question = f"tune restarts {settings.client}'s stack about {restarts} times; go on?"
    if not sys.stdin.isatty():
        raise FeatureMissing(f"{question} Nobody can answer here: add --yes")
    if not click.confirm(question, err=True):
        raise FeatureMissing("not tuned: restarting the stack was not agreed to")


def _planned_load(settings: Settings, engagement: Engagement, plan: Plan) -> Any:
    run = newest_run(engagement, plan.run)
    return workload_named(settings, run.workload)[0]


def _measure_after(bench: Bench, accepted: Stack, console: Console) -> None:
    """Measure the other workloads once on the accepted stack, for the side-by-side tables."""
    loads = [level for load in bench.settings.workloads for level in levels_of(load)]
    for load in loads:
        if load.kind == "capacity":
            console.say(f"{load.name}: measure it with `--stack after` for the tuned capacity")
            continue
        # the workload of the trials was measured on the accepted stack in every pair of the proof
        is_known = load.name == bench.load.name or valid_runs(bench.engagement, "after", load.name)
        if is_known:
            continue
        console.step(f"Measure the tuned stack: {load.name}")
        bench.target.apply(accepted.options)
        job = Job(
            engagement=bench.engagement,
            settings=bench.settings,
            load=load,
            target=bench.target,
            stack="after",
        )
        measure_run(job, bench.on_progress)
        console.run_made()


def _with_launch(settings: Settings, verdict: VerdictRecord) -> VerdictRecord:
    stack = verdict.accepted or verdict.original
    return replace(verdict, launch=launch_spec(settings, stack))


def launch_spec(settings: Settings, stack: Stack) -> LaunchSpec | None:
    """Return how to start `stack` anywhere; None for a stack that the kit cannot start."""
    if settings.target.launch is None:
        return None
    engine = engine_for_launcher(stack.launcher)
    return engine.launch_spec(
        Launch(
            launcher=stack.launcher,
            model=stack.model,
            served_model=stack.served_model,
            options=stack.options,
            binary=settings.target.launch.binary,
        )
    )


def _proposed_only(engagement: Engagement, settings: Settings, plan: Plan) -> VerdictRecord:
    run = newest_run(engagement, plan.run)
    best = plan.candidates[0] if plan.candidates else None
    says = (
        f"the most promising is “{best.title}”, predicted {best.predicted.value:.1f}×"
        if best
        else "none promises anything"
    )
    return VerdictRecord(
        outcome="proposed_only",
        sentence=f"{len(plan.candidates)} changes are proposed and none was tried, because this "
        f"engagement may not restart the stack; {says}.",
        goal_metric=plan.goal_metric,
        at_least=plan.at_least,
        goal_reached=None,
        effect=None,
        noise_floor=None,
        headlines=[],
        kept=[],
        rejected={},
        proof_trial=None,
        original=run.target,
        accepted=None,
        launch=launch_spec(settings, run.target),
        oracle_sha256=None,
        notes=["predictions are not measurements; grant `access.restart` to have them tried"],
    )
