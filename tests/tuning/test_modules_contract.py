"""Every lever through the same contract, in every context."""

import dataclasses
import re
from pathlib import Path

import pytest

import tuning.modules
from teardown.records import CAUSES, to_json
from teardown.settings import METRICS, Goal
from tests.tuning.contexts import CONTEXTS
from tuning.modules import MODULES
from tuning.plan import make_plan

KNOWN_CAUSES = {cause for causes in CAUSES.values() for cause in causes}
NOT_LEVERS = {"__init__", "protocol"}


def test_every_file_of_a_lever_is_registered_under_its_name():
    files = {p.stem for p in Path(tuning.modules.__file__).parent.glob("*.py")} - NOT_LEVERS
    assert files == set(MODULES)
    assert all(name == lever().name for name, lever in MODULES.items())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
@pytest.mark.parametrize("lever", MODULES.values(), ids=MODULES.keys())
def test_a_lever_keeps_its_contract(lever, context, metric):
    context = dataclasses.replace(context, goal=Goal(metric=metric))
    before = dataclasses.asdict(context)
    candidates, alone = lever().candidates(context), lever().left_alone(context)
    assert (candidates, alone) == (lever().candidates(context), lever().left_alone(context))
    assert dataclasses.asdict(context) == before
    assert len({c.candidate for c in candidates}) == len(candidates)
    for candidate in candidates:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", candidate.candidate)
        assert candidate.lever == lever.name
        assert candidate.changes
        assert not any(option.startswith("-") for option in candidate.changes)
        assert candidate.cause is None or candidate.cause in KNOWN_CAUSES
        assert candidate.title and candidate.reason and candidate.watch and candidate.undo
        predicted = candidate.predicted
        assert 0 < predicted.low <= predicted.value <= predicted.high
        assert predicted.low < predicted.high or predicted.value == 1.0
        assert predicted.method
    for item in alone:
        assert item.setting and item.because
        assert item.value != "None"


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_a_quantised_cache_always_says_that_answers_may_change(context):
    for candidate in make_plan(context).candidates:
        touches_answers = any("cache-type" in o or "kv-cache-dtype" in o for o in candidate.changes)
        assert (candidate.changes_answers is not None) == touches_answers


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_a_plan_is_the_same_bytes_each_time(context):
    assert to_json(make_plan(context)) == to_json(make_plan(context))
