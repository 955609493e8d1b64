"""What screening and proof decide, from run values alone."""

from pathlib import Path

import pytest

from teardown.engagement import Engagement
from teardown.records import (
    Estimate,
    OracleCheck,
    OracleResult,
    Pair,
    Quantiles,
    Run,
    Stack,
    Summary,
    Trial,
    Validity,
    Window,
)
from tuning.goal import value_of
from tuning.proof import decide
from tuning.screen import judge_screened, noise_floor
from tuning.search import compatible
from tuning.trial import load_trial, make_pair, new_trial, unequal_work, with_changes


def quantiles(p50: float | None) -> Quantiles:
    found = None if p50 is None else Estimate(value=p50, low=None, high=None, n=20, method="test")
    return Quantiles(
        n=20, mean=p50, p50=found, p90=None, p95=None, p99=None, withheld={"p90": "n too small"}
    )


def run(name: str, ttft_s: float | None, *, tokens: int = 1000, verdict: str = "valid") -> Run:
    window = Window(
        start_s=0.0,
        end_s=10.0,
        num_requests=20,
        num_failed=0,
        requests_per_s=2.0,
        output_tokens_per_s=tokens / 10,
        prompt_tokens=5000,
        cached_tokens=None,
        output_tokens=tokens,
        ttft_s=quantiles(ttft_s),
        tpot_s=quantiles(0.02),
        e2e_s=quantiles(1.0),
        client_wait_s=quantiles(None),
        max_gap_s=quantiles(None),
        attainment=None,
        goodput_per_s=None,
    )
    return Run(
        run=name,
        stack="control",
        workload="chats",
        regime="cold",
        salt="a",
        seed=1,
        schedule_sha256="0" * 64,
        target=Stack(
            engine="llama.cpp",
            launcher="xllamacpp",
            version="1",
            model="m",
            served_model="m",
            options={},
        ),
        segments=[],
        validity=Validity(verdict=verdict, reasons=[], checks=[]),  # type: ignore[arg-type]
        summary=None
        if verdict == "invalid"
        else Summary(num_by_status={"ok": 20}, plateau=window, whole=window),
    )


def trial(name: str, factor: float | None, *, passes: bool = True, **changes: object) -> Trial:
    made = new_trial(f"screen-{name}", "screen", [name], dict(changes))  # type: ignore[arg-type]
    effect = (
        None
        if factor is None
        else Estimate(value=factor, low=None, high=None, n=1, method="one pair")
    )
    oracle = OracleResult(
        passed=passes,
        reference_sha256="0" * 64,
        num_prompts=8,
        num_tokens=320,
        checks=[OracleCheck(name="shift", value=0.3, band=0.1, holds=passes, says="moved by 0.3")],
    )
    import dataclasses

    return dataclasses.replace(made, effect=effect, oracle=oracle, state="done")


def test_the_noise_floor_comes_from_runs_of_the_same_stack() -> None:
    floor = noise_floor([run(f"r{i}", v) for i, v in enumerate((1.0, 1.1, 0.95, 1.02))], "ttft_p50")
    assert floor is not None
    assert floor.n == 4
    assert 1.1 < floor.value < 1.3
    assert noise_floor([run("r1", 1.0)], "ttft_p50") is None


def test_screening_keeps_what_beats_the_noise_and_passes_the_oracle() -> None:
    floor = Estimate(value=1.2, low=None, high=None, n=4, method="test")
    better, same, worse, wrong = judge_screened(
        [
            trial("cache", 2.0),
            trial("threads", 1.1),
            trial("small", 0.5),
            trial("kv-q4_0", 3.0, passes=False),
        ],
        floor,
    )
    assert better.decision == "kept"
    assert same.decision == "no_change"
    assert worse.decision == "rejected"
    assert "worse" in worse.because
    assert wrong.decision == "rejected"
    assert "oracle" in wrong.because


def test_without_a_noise_floor_a_small_gain_is_still_not_kept() -> None:
    (small,) = judge_screened([trial("tiny", 1.03)], None)
    assert small.decision == "no_change"


def test_two_kept_candidates_that_set_one_option_differently_leave_the_better_one() -> None:
    kept = compatible(
        [
            trial("slots-4", 1.5, parallel=4),
            trial("slots-8", 1.8, parallel=8),
            trial("cache", 1.6, cache=True),
        ]
    )
    assert [t.candidates[0] for t in kept] == ["slots-8", "cache"]


def test_a_candidate_that_a_better_one_contains_is_not_counted_twice() -> None:
    kept = compatible(
        [trial("slots-8", 1.5, parallel=8), trial("both", 3.0, parallel=8, cache=True)]
    )
    assert [t.candidates[0] for t in kept] == ["both"]


def pairs(values: list[tuple[float, float]]) -> list[Pair]:
    return [
        Pair(
            run_before=f"a{i}",
            run_after=f"b{i}",
            before=b,
            after=a,
            first="before",
            equal_work=0.0,
        )
        for i, (b, a) in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.5, 2.5, "kept"), (0.9, 1.4, "no_change"), (0.4, 0.8, "rejected")],
)
def test_a_proof_needs_an_interval_that_leaves_out_no_change(
    low: float, high: float, expected: str
) -> None:
    effect = Estimate(value=(low + high) / 2, low=low, high=high, n=4, method="t")
    assert decide(effect, pairs([(1.0, 1.0)] * 4))[0] == expected


def test_three_pairs_make_no_claim_however_large_the_gain() -> None:
    effect = Estimate(value=5.0, low=None, high=None, n=3, method="ratio")
    decision, because = decide(effect, pairs([(5.0, 1.0)] * 3))
    assert decision == "rejected"
    assert "3 of 3 pairs count, a claim needs 4" in because


def test_a_pair_of_unequal_work_is_left_out_and_says_so() -> None:
    short = run("r2", 0.5, tokens=800)
    assert unequal_work(run("r1", 1.0), short) == pytest.approx(0.2)
    pair = make_pair(run("r1", 1.0), short, "before", "ttft_p50")
    assert pair.excluded is not None
    assert "unequal work" in pair.excluded


def test_an_invalid_run_is_no_half_of_a_pair() -> None:
    bad = run("r2", 0.5, verdict="invalid")
    assert value_of(bad, "ttft_p50") is None
    pair = make_pair(run("r1", 1.0), bad, "after", "ttft_p50")
    assert pair.excluded is not None
    assert "r2 is invalid" in pair.excluded


def test_a_withheld_statistic_is_no_value() -> None:
    pair = make_pair(run("r1", None), run("r2", 1.0), "before", "ttft_p50")
    assert pair.excluded == "ttft_p50 is withheld: too few requests"


def test_a_change_of_none_takes_the_option_away() -> None:
    assert with_changes({"a": 1, "b": 2}, {"b": None, "c": 3}) == {"a": 1, "c": 3}


def test_a_stored_trial_of_other_changes_is_not_taken_up(tmp_path: Path) -> None:
    from teardown.engagement import write_atomic
    from teardown.records import to_json

    engagement = Engagement(tmp_path)
    stored = trial("cache", 2.0, parallel=4)
    write_atomic(engagement.trial_path(stored.trial), to_json(stored))
    same = load_trial(engagement, new_trial("screen-cache", "screen", ["cache"], {"parallel": 4}))
    other = load_trial(engagement, new_trial("screen-cache", "screen", ["cache"], {"parallel": 8}))
    assert same == stored
    assert other.state == "planned"
