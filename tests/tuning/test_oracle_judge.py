"""The oracle on made-up answers: what it lets pass and what it refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teardown.errors import TargetError, UsageError
from teardown.records import Stack
from tests.tuning.answers import (
    NUM_TOKENS,
    answer,
    cut,
    flipped,
    made,
    moved,
    reference,
    without_logprobs,
)
from tuning.oracle import Answer, compare, is_stored, judge, load, store
from tuning.oracle.reference import RECORD_FILE, REFERENCE_FILE
from tuning.oracle.repetition import is_repetition

STACK = Stack(
    engine="llama.cpp",
    launcher="xllamacpp",
    version=None,
    model="m.gguf",
    served_model="m",
    options={"parallel": 1},
)
PROMPTS = [{"prompt": f"p{i}"} for i in range(8)]
NOISE = 0.05


@pytest.fixture
def stored(tmp_path):
    twin = [moved(a, NOISE, seed=3) for a in reference()]
    passes = {"again": reference(), "twin": twin}
    return store(tmp_path / "oracle", STACK, PROMPTS, NUM_TOKENS, reference(), passes)


def judged(stored, answers):
    return judge(stored, stored.record.noise, answers)


def failing(result):
    return {check.name for check in result.checks if not check.holds}


def test_the_reference_passes_its_own_judgement(stored):
    result = judged(stored, reference())
    assert result.passed
    assert result.num_tokens == 8 * NUM_TOKENS
    assert result.reference_sha256 == stored.sha256


@pytest.mark.parametrize("seed", range(20))
def test_another_order_of_arithmetic_passes(stored, seed):
    result = judged(stored, [moved(a, NOISE, seed=100 + seed) for a in reference()])
    assert result.passed, failing(result)


@pytest.mark.parametrize("seed", range(20))
def test_three_times_the_noise_is_refused(stored, seed):
    result = judged(stored, [moved(a, 3 * NOISE, seed=100 + seed) for a in reference()])
    assert "log-probabilities" in failing(result)


def test_a_flip_at_a_near_tie_is_noise(stored):
    near = [0.05] + [4.0] * (NUM_TOKENS - 1)
    one = answer(0, margins=near)
    changed = compare("c", [one], [flipped(one, 0)], NUM_TOKENS)
    assert changed.flips[0].margin == pytest.approx(0.05)
    answers = reference()
    at = next(i for i, t in enumerate(answers[0].top) if sorted(t.values())[-2] > -0.3)
    answers[0] = flipped(answers[0], at)
    assert judged(stored, answers).passed


def test_one_flip_with_a_clear_margin_is_refused(stored):
    answers = reference()
    at = next(i for i, t in enumerate(answers[0].top) if sorted(t.values())[-2] < -2.0)
    answers[0] = flipped(answers[0], at)
    assert failing(judged(stored, answers)) == {"flip margin"}


def test_agreement_after_the_first_flip_is_not_counted():
    one = answer(0)
    same_after = [*one.tokens[:3], one.tokens[3] + "x", *one.tokens[4:]]
    other = made(0, same_after, one.logprobs, one.top)
    assert compare("c", [one], [other], NUM_TOKENS).num_compared == 4


def test_answers_cut_short_are_refused(stored):
    answers = [cut(a, 10, "length") for a in reference()]
    assert {"length", "finish reasons"} <= failing(judged(stored, answers))


def test_a_single_answer_that_stops_where_the_reference_was_sure_is_refused(stored):
    answers = reference()
    at = max(i for i, t in enumerate(answers[0].top) if sorted(t.values())[-2] < -2.0)
    answers[0] = cut(answers[0], at, "stop")
    assert "flip margin" in failing(judged(stored, answers))


def test_an_answer_that_ends_for_a_new_reason_is_refused(stored):
    answers = [*reference()[:7], cut(reference()[7], NUM_TOKENS, "abort")]
    assert failing(judged(stored, answers)) == {"finish reasons"}


def test_missing_answers_are_refused(stored):
    assert failing(judged(stored, reference()[:7])) == {"answers"}


def test_empty_answers_are_refused(stored):
    empty = [Answer(prompt_index=i, finish_reason="stop", num_tokens=0) for i in range(8)]
    assert {"degeneration", "length"} <= failing(judged(stored, empty))


def test_answers_that_loop_are_refused(stored):
    looping = [made(i, [" the end"] * NUM_TOKENS, [-0.1] * 40, [{}] * 40) for i in range(8)]
    assert "degeneration" in failing(judged(stored, looping))


def test_without_logprobs_only_texts_are_compared_and_the_check_says_so(tmp_path):
    answers = [without_logprobs(a) for a in reference()]
    weak = store(tmp_path, STACK, PROMPTS, NUM_TOKENS, answers, {"again": answers})
    assert judged(weak, answers).passed
    other = [without_logprobs(answer(i, seed=5)) for i in range(8)]
    result = judged(weak, other)
    assert "text agreement" in failing(result)
    assert "no log-probabilities" in " ".join(check.says for check in result.checks)
    assert weak.record.notes == ["the server gave no log-probabilities"]


def test_without_noise_passes_the_floors_hold_and_the_record_says_so(tmp_path):
    bare = store(tmp_path, STACK, PROMPTS, NUM_TOKENS, reference(), {})
    assert judged(bare, reference()).passed
    assert "log-probabilities" in failing(judged(bare, [moved(a, 0.2) for a in reference()]))
    assert "floors" in " ".join(bare.record.notes)


def test_a_model_of_near_ties_is_judged_by_its_own_noise(tmp_path):
    """Random weights: every token is a near-tie, so answers part at once and mean nothing."""
    ties = [answer(i, margins=[0.01] * NUM_TOKENS) for i in range(8)]
    twin = [moved(a, 0.01, seed=1) for a in ties]
    dummy = store(tmp_path, STACK, PROMPTS, NUM_TOKENS, ties, {"twin": twin})
    assert judged(dummy, [moved(a, 0.01, seed=2) for a in ties]).passed
    assert not judged(dummy, [moved(a, 0.2, seed=2) for a in ties]).passed


def test_what_is_stored_is_what_is_loaded(stored, tmp_path):
    folder = tmp_path / "oracle"
    assert is_stored(folder)
    assert load(folder, PROMPTS) == stored
    assert judged(load(folder), reference()) == judged(stored, reference())


def test_a_tampered_reference_judges_nothing(stored, tmp_path):
    path = tmp_path / "oracle" / REFERENCE_FILE
    path.write_bytes(path.read_bytes().replace(b"w1", b"w2", 1))
    with pytest.raises(UsageError, match="has changed since it was stored"):
        load(tmp_path / "oracle")


def test_a_reference_is_never_replaced(stored, tmp_path):
    with pytest.raises(UsageError, match="never replaced"):
        store(tmp_path / "oracle", STACK, PROMPTS, NUM_TOKENS, reference(), {})


def test_a_reference_is_bound_to_its_prompts(stored, tmp_path):
    with pytest.raises(UsageError, match="other prompts"):
        load(tmp_path / "oracle", [{"prompt": "another"}])


def test_a_missing_reference_is_said_in_one_sentence(stored, tmp_path):
    (tmp_path / "oracle" / REFERENCE_FILE).unlink()
    with pytest.raises(UsageError, match="no answer can be judged"):
        load(tmp_path / "oracle")


def test_a_stack_that_says_nothing_is_no_reference(tmp_path):
    silent = [Answer(prompt_index=0, finish_reason="stop")]
    with pytest.raises(TargetError, match="no reference"):
        store(tmp_path, STACK, PROMPTS[:1], NUM_TOKENS, silent, {})


def test_text_is_kept_in_the_reference_file_alone(stored, tmp_path):
    record = (tmp_path / "oracle" / RECORD_FILE).read_text()
    assert stored.answers[0].tokens[0].strip() not in record.replace(stored.sha256, "")
    said = " ".join(c.says for c in judged(stored, [moved(a, 0.3) for a in reference()]).checks)
    assert not any(token.strip() in said.split() for token in stored.answers[0].tokens)


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=200))
def test_repetition_never_fails_on_any_text(text):
    assert is_repetition(text) in (True, False)


def test_repetition_knows_loops_and_leaves_prose_alone():
    assert is_repetition("!" * 40)
    assert is_repetition("the first floor of the 1st floor of " * 8)
    assert not is_repetition(
        "The library opens at nine on weekdays and at ten on Saturdays; it is closed on Sundays "
        "and on public holidays, and the reading room has twelve desks."
    )
