"""What a plan holds for stacks with known faults, and for stacks with none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown.errors import UsageError
from teardown.records import Candidate, Estimate
from teardown.settings import Goal
from tests.tuning.contexts import (
    CONTEXTS,
    EAGER_VLLM,
    GOOD_LLAMA,
    GOOD_VLLM,
    MISCONFIGURED_LLAMA,
    PYTHON_LLAMA,
    SILENT,
    UNKNOWN_ENGINE,
)
from tuning.plan import are_compatible, make_plan, merge


def by_id(context):
    return {c.candidate: c for c in make_plan(context).candidates}


def alone(context):
    return {item.setting: item for item in make_plan(context).left_alone}


def test_a_misconfigured_llama_server_gets_slots_cache_steps_and_cache_types():
    found = by_id(MISCONFIGURED_LLAMA)
    assert {"slots-8", "prompt-cache-on", "ubatch-512", "kv-q8_0", "kv-q4_0"} <= set(found)
    assert found["slots-8"].changes == {"parallel": 8, "kv-unified": True}
    assert found["prompt-cache-on"].changes["cache-prompt"] is True
    assert found["prompt-cache-on"].changes["cache-ram"] > 0
    assert found["ubatch-512"].changes == {"ubatch-size": 512, "batch-size": 2048}


def test_a_plan_is_ordered_by_its_predictions():
    for context in CONTEXTS.values():
        values = [c.predicted.value for c in make_plan(context).candidates]
        assert values == sorted(values, reverse=True)


def test_the_supported_changes_come_before_the_tempting_ones():
    found = by_id(MISCONFIGURED_LLAMA)
    tempting = max(found["kv-q8_0"].predicted.value, found["kv-q4_0"].predicted.value)
    assert found["slots-8"].predicted.value > 1.2 > tempting
    assert found["prompt-cache-on"].predicted.value > tempting
    assert found["kv-q4_0"].risk == "high"


def test_the_two_best_changes_are_also_tried_together():
    found = by_id(MISCONFIGURED_LLAMA)
    together = [c for name, c in found.items() if "-and-" in name]
    assert {"parallel", "cache-prompt"} <= set(together[0].changes)


def test_more_slots_keep_the_context_of_each_request():
    tight = replace(
        MISCONFIGURED_LLAMA,
        stack=replace(MISCONFIGURED_LLAMA.stack, options={"parallel": 1, "ctx-size": 512}),
    )
    changes = by_id(tight)["slots-8"].changes
    assert changes["ctx-size"] >= 8 * tight.max_context_tokens
    assert changes["ctx-size"] % 256 == 0
    assert changes["kv-unified"] is True


def test_explicit_slots_keep_a_unified_cache_that_was_automatic():
    context = replace(
        MISCONFIGURED_LLAMA,
        stack=replace(
            MISCONFIGURED_LLAMA.stack,
            options={"ctx-size": 8192},
            effective={"parallel": 4, "kv-unified": True, "ctx-size": 8192},
        ),
    )
    assert by_id(context)["slots-8"].changes == {"parallel": 8, "kv-unified": True}


def test_an_oversized_context_is_left_alone_with_its_numbers():
    item = alone(MISCONFIGURED_LLAMA)["ctx-size"]
    assert "512 of 8192" in item.because
    assert "memory" in item.because


def test_a_well_configured_server_gets_small_honest_candidates_only():
    found = by_id(GOOD_LLAMA)
    assert {"kv-q8_0", "kv-q4_0", "slots-4"} <= set(found)
    assert all(c.predicted.value <= 1.15 for c in found.values())
    assert {"cache-prompt", "batch-size"} <= set(alone(GOOD_LLAMA))


def test_an_eager_vllm_with_few_sequences_gets_graphs_sequences_and_both():
    found = by_id(EAGER_VLLM)
    assert {"graphs-on", "seqs-64", "seqs-default", "token-budget-16384", "kv-fp8"} <= set(found)
    assert found["graphs-on"].changes == {"enforce-eager": None}
    together = next(c for name, c in found.items() if "-and-" in name)
    assert together.changes.keys() == {"enforce-eager", "max-num-seqs"}
    assert found["kv-fp8"].changes_answers


def test_a_well_configured_vllm_still_gets_candidates_with_small_predictions():
    found = by_id(GOOD_VLLM)
    assert len(found) >= 3
    assert all(c.predicted.value <= 1.15 for c in found.values())
    assert "graphs-on" not in found


def test_a_serialised_server_is_called_a_migration_and_not_tuned():
    assert "migration" in alone(PYTHON_LLAMA)["parallel"].because


def test_a_plan_says_what_it_could_not_know():
    notes = " ".join(make_plan(SILENT).notes)
    assert "no summary" in notes
    assert "in common" in notes
    assert "memory is not predicted" in notes


def test_an_unknown_engine_gets_an_empty_plan_with_the_reason():
    plan = make_plan(UNKNOWN_ENGINE)
    assert plan.candidates == []
    assert any("sglang" in note for note in plan.notes)


def test_speculation_is_proposed_only_where_decode_dominates_a_small_batch():
    alone_on_gpu = replace(GOOD_VLLM, concurrency=1)
    assert "ngram-speculation" in by_id(alone_on_gpu)
    assert "ngram-speculation" not in by_id(GOOD_VLLM)


def test_lifting_slots_costs_time_per_token_and_the_prediction_says_so():
    context = replace(MISCONFIGURED_LLAMA, goal=Goal(metric="tpot_p50"))
    assert by_id(context)["slots-8"].predicted.value < 1


def test_threads_beyond_the_cores_are_taken_back():
    context = replace(
        GOOD_LLAMA, stack=replace(GOOD_LLAMA.stack, options={"threads": 16, "parallel": 8})
    )
    assert by_id(context)["threads-1"].predicted.value > 1.2


def candidate(name, changes):
    return Candidate(
        candidate=name,
        title=name,
        lever="batching",
        changes=changes,
        predicted=Estimate(value=1.1, low=1.0, high=1.2, n=1, method="made up"),
        reason="r",
        cause=None,
        risk="low",
        changes_answers=None,
        watch="w",
        undo="u",
    )


OPTIONS = st.dictionaries(
    st.sampled_from("abcd"), st.one_of(st.none(), st.booleans(), st.integers(0, 2)), min_size=1
)
CANDIDATES = st.lists(OPTIONS, max_size=4).map(
    lambda changes: [candidate(f"c{i}", c) for i, c in enumerate(changes)]
)


@given(CANDIDATES)
def test_merging_holds_every_change_or_refuses(candidates):
    try:
        merged = merge(candidates)
    except UsageError:
        assert not are_compatible(candidates)
        return
    for one in candidates:
        assert {k: merged[k] for k in one.changes} == one.changes
    assert set(merged) == {k for c in candidates for k in c.changes}


@given(CANDIDATES, st.randoms())
def test_merging_does_not_depend_on_the_order(candidates, random):
    shuffled = random.sample(candidates, len(candidates))
    assert are_compatible(candidates) == are_compatible(shuffled)
    if are_compatible(candidates):
        assert list(merge(candidates).items()) == list(merge(shuffled).items())


@given(CANDIDATES)
def test_merging_twice_changes_nothing(candidates):
    if are_compatible(candidates):
        assert merge([*candidates, *candidates]) == merge(candidates)


def test_a_conflict_names_both_candidates_and_the_option():
    with pytest.raises(UsageError, match="slots-8 sets parallel to 8, slots-4 to 4"):
        merge([candidate("slots-8", {"parallel": 8}), candidate("slots-4", {"parallel": 4})])
