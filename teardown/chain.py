"""`run` and `demo`: the verbs in order, each skipped where its record is there already."""

import contextlib
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from teardown.capacity import is_measured
from teardown.engagement import Engagement
from teardown.errors import FeatureMissing, RunInvalid
from teardown.settings import Settings
from teardown.steps import diagnose_step, measure_step
from teardown.ui import Console


class Step(NamedTuple):
    """One verb of the chain. is_done: its record is there; seconds: a first guess of its length."""

    title: str
    is_done: Callable[[], bool]
    do: Callable[[], object]


def run_chain(folder: Path, *, yes: bool) -> dict[str, Any]:
    """Run every step that is left and return a document with the report's path and a text.

    RunInvalid when a measured run is invalid: nothing is tuned on numbers that must not be used.
    """
    console = Console()
    started = time.monotonic()
    engagement = Engagement(folder)
    settings = engagement.settings()
    console.plan_runs(runs_left(engagement, settings))
    for step in _steps(engagement, settings, console, yes=yes):
        if step.is_done():
            console.step(f"{step.title}: done before")
            continue
        console.step(step.title)
        step.do()
    report = engagement.out_dir / "report.html"
    text = _first_screen(engagement)
    minutes = (time.monotonic() - started) / 60
    return {
        "schema": "teardown.engagement/1",
        "folder": str(folder),
        "report": str(report),
        "minutes": round(minutes, 2),
        "text": f"{text}\nreport: {report}\nnext: open {report}",
    }


def _steps(
    engagement: Engagement, settings: Settings, console: Console, *, yes: bool
) -> list[Step]:
    folder = engagement.folder

    def call(target: str, *arguments: object, **named: object) -> Callable[[], object]:
        # the other packages stand above this one; their steps are found by name when called
        module, function = target.split(":")
        return lambda: getattr(importlib.import_module(module), function)(*arguments, **named)

    def unmeasured() -> list[str]:
        loads = settings.workloads
        return [w.name for w in loads if not is_measured(engagement, "before", w)]

    return [
        Step(
            "Check that it can be measured",
            lambda: bool(engagement.run_ids()),
            lambda: _doctor(folder, console),
        ),
        Step(
            "Measure the stack as it is",
            lambda: not unmeasured(),
            lambda: _measure(folder, unmeasured(), console),
        ),
        Step(
            "Attribute the time",
            engagement.attribution_path.exists,
            lambda: _diagnose(folder, console),
        ),
        Step(
            "Plan changes",
            engagement.plan_path.exists,
            call("tuning.steps:plan_step", folder, console),
        ),
        Step(
            "Try and prove the changes",
            engagement.verdict_path.exists,
            call("tuning.steps:tune_step", folder, yes=yes, console=console),
        ),
        Step(
            "Write the stack as files",
            engagement.bundle_path.exists,
            lambda: _emit(folder, console),
        ),
        Step(
            "Write the report",
            lambda: False,
            lambda: _verb("reports.verbs:report", folder=folder, recheck=False, as_json=False),
        ),
    ]


def runs_left(engagement: Engagement, settings: Settings) -> int:
    """Return about how many runs a whole engagement still needs: measured, screened, proven."""
    loads = len(settings.workloads)
    if settings.access.restart == "never" or settings.target.kind == "endpoint":
        needed = loads
    else:
        trials, pairs = settings.budgets.trials, settings.budgets.pairs
        controls = trials // 2 + 1
        needed = loads + trials + controls + 2 * pairs + loads - 1
    if engagement.verdict_path.exists():
        return 0
    return max(1, needed - len(engagement.run_ids()))


def _verb(target: str, **arguments: object) -> None:
    """Call a verb of a package that stands above this one; what it prints goes to stderr."""
    module, name = target.split(":")
    verb = getattr(importlib.import_module(module), name)
    with contextlib.redirect_stdout(sys.stderr):
        verb.callback(**arguments)


def _emit(folder: Path, console: Console) -> None:
    """Emit what can be emitted; a stack that nobody here can start leaves the report to write."""
    try:
        _verb("iac.verbs:emit", folder=folder, as_json=False)
    except FeatureMissing as error:
        console.say(str(error))


def _doctor(folder: Path, console: Console) -> None:
    from teardown.errors import TargetError
    from teardown.preflight import ANNOUNCEMENT, examine, render

    console.say(ANNOUNCEMENT)
    findings = examine(folder, None, None)
    console.say(render([f for f in findings if f.level != "ok"]) or "every check passes")
    failed = [f for f in findings if f.level == "fail"]
    if failed:
        raise TargetError(f"{failed[0].name}: {failed[0].text}")


def _measure(folder: Path, names: list[str], console: Console) -> None:
    from teardown.text import run_text

    for run in measure_step(folder, {"workloads": names}, console):
        console.say(run_text(run))
        if run.validity.verdict == "invalid":
            reasons = "; ".join(f"{r.code}: {r.text}" for r in run.validity.reasons)
            raise RunInvalid(f"{run.run} is invalid ({reasons}); nothing is tuned on it")


def _diagnose(folder: Path, console: Console) -> None:
    from teardown.classify.picture import picture

    console.say(picture(diagnose_step(folder, None)))


def _first_screen(engagement: Engagement) -> str:
    from teardown.records import VerdictRecord, read
    from teardown.text import headline_text

    verdict = read(VerdictRecord, engagement.verdict_path)
    lines = ["", verdict.sentence]
    lines += [f"  {headline_text(line)}" for line in verdict.headlines]
    lines += [f"  rejected {name}: {why}" for name, why in verdict.rejected.items()]
    return "\n".join(lines)
