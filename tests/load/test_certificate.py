"""Summary and certificate: plateau, attainment, and every validity check at its thresholds."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from teardown.load.certificate import Conditions, certify
from teardown.load.summary import last_attempts, plateau_of, summarise
from teardown.records import Request, Validity
from teardown.settings import Limit, Promises
from teardown.text import error_bar_text
from tests.desk import finish, start
from tests.fakes.engine import FakeEngine, Script, Seen, chat_stream, refusal
from tests.fakes.records import calibration

PROMISE = Promises(ttft_s=Limit(p95=0.5))


def request(number: int, sent_s: float, **changes: object) -> Request:
    fields: dict[str, object] = {
        "request_id": f"q{number}",
        "status": "ok",
        "sent_s": sent_s,
        "ttft_s": 0.2,
        "tpot_s": 0.02,
        "e2e_s": 1.0,
        "stream_close_s": 1.0,
        "prompt_tokens": 100,
        "output_tokens": 40,
        "cached_tokens": 0,
        "chunk_s": [sent_s + 0.2 + 0.02 * i for i in range(40)],
        "receive_lag_s": 0.0001,
    }
    return Request(**(fields | changes))  # type: ignore[arg-type]


def closed_run(users: int = 4, turns: int = 8) -> list[Request]:
    return [request(u * turns + t, float(t)) for u in range(users) for t in range(turns)]


def conditions(**changes: object) -> Conditions:
    base = Conditions(
        is_open=False,
        concurrency=4,
        rate_per_s=None,
        num_intended=32,
        reusable_ratio=0.0,
        clock_moved_s=0.0,
        receive_lag_p99_s=0.0001,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def level(validity: Validity, code: str) -> str:
    return next(c.level for c in validity.checks if c.code == code)


def test_a_clean_run_is_valid_and_names_every_check() -> None:
    found = certify(closed_run(), conditions())
    assert found.verdict == "valid"
    assert {c.code for c in found.checks} == {
        "client_limited",
        "schedule_not_kept",
        "warm_cache",
        "errors",
        "not_streaming",
        "unsteady",
        "clock",
    }


@pytest.mark.parametrize(
    ("lag_s", "expected"), [(0.0005, "ok"), (0.002, "warn"), (0.01, "invalid")]
)
def test_a_slow_client_is_told_from_a_slow_server(lag_s: float, expected: str) -> None:
    found = certify(closed_run(), conditions(receive_lag_p99_s=lag_s))
    assert level(found, "client_limited") == expected


def test_a_closed_loop_that_never_reaches_its_users_is_invalid() -> None:
    run = [request(i, float(i)) for i in range(32)]  # one at a time
    assert level(certify(run, conditions()), "schedule_not_kept") == "invalid"


@pytest.mark.parametrize(("late_s", "expected"), [(0.001, "ok"), (0.05, "warn"), (0.2, "invalid")])
def test_an_open_loop_that_sends_late_is_flagged(late_s: float, expected: str) -> None:
    run = [request(i, i / 4 + late_s, intended_s=i / 4) for i in range(32)]
    found = certify(run, conditions(is_open=True, rate_per_s=4.0))
    assert level(found, "schedule_not_kept") == expected


def test_an_open_loop_that_leaves_requests_unsent_is_invalid() -> None:
    run = [request(i, float(i), intended_s=float(i)) for i in range(20)]
    found = certify(run, conditions(is_open=True, rate_per_s=1.0))
    assert level(found, "schedule_not_kept") == "invalid"
    assert level(found, "errors") == "invalid"


def test_cache_hits_that_the_schedule_cannot_explain_are_invalid() -> None:
    warm = [replace(r, cached_tokens=60) for r in closed_run()]
    assert level(certify(warm, conditions()), "warm_cache") == "invalid"
    assert level(certify(warm, conditions(reusable_ratio=0.6)), "warm_cache") == "ok"


def test_refused_requests_count_against_the_run_and_the_promise() -> None:
    run = closed_run()
    half = [replace(r, status="refused", ttft_s=None) if i % 2 else r for i, r in enumerate(run)]
    assert level(certify(half, conditions()), "errors") == "invalid"
    summary = summarise(half, PROMISE, concurrency=4, is_open=False)
    assert summary.whole.attainment is not None
    assert summary.whole.attainment.value == 0.5
    assert summary.num_by_status == {"ok": 16, "refused": 16}


def queue(load: float, seed: int, servers: int = 8, number: int = 120) -> list[Request]:
    """Return an open-loop run whose requests wait for one of `servers`, simulated."""
    draw = random.Random(seed)
    free, now, run = [0.0] * servers, 0.0, []
    for i in range(number):
        now += draw.expovariate(load * servers)
        begun = max(now, min(free))
        took = begun + draw.gammavariate(10, 0.1) - now
        free[free.index(min(free))] = now + took
        run.append(request(i, now, intended_s=now, e2e_s=took, stream_close_s=took))
    return run


def num_growing(load: float, number: int = 40) -> int:
    runs = [queue(load, seed) for seed in range(number)]
    asked = conditions(is_open=True, rate_per_s=load * 8, num_intended=120)
    return sum(level(certify(run, asked), "unsteady") == "invalid" for run in runs)


def test_a_queue_that_the_stack_cannot_serve_is_growing() -> None:
    assert num_growing(1.6) >= 36


def test_a_busy_queue_that_the_stack_can_serve_is_not_growing() -> None:
    assert num_growing(0.8) <= 3


def test_a_load_that_is_meant_to_rise_is_not_called_unsteady() -> None:
    run = queue(1.6, seed=3)
    asked = conditions(is_open=True, rate_per_s=12.8, num_intended=120)
    assert level(certify(run, asked), "unsteady") == "invalid"
    assert level(certify(run, replace(asked, is_stationary=False)), "unsteady") == "ok"


def test_a_moved_clock_is_flagged() -> None:
    assert level(certify(closed_run(), conditions(clock_moved_s=0.06)), "clock") == "invalid"


def test_the_plateau_leaves_out_the_drain() -> None:
    """Case 29: ten users, one request ends 19 s after the others."""
    run = [request(u * 10 + t, float(t)) for u in range(10) for t in range(10)]
    run[-1] = replace(run[-1], e2e_s=20.0, stream_close_s=20.0)
    start, end = plateau_of(run, concurrency=10, is_open=False)
    assert (start, end) == (0.0, 10.0)
    summary = summarise(run, Promises(), concurrency=10, is_open=False)
    assert summary.plateau.requests_per_s == pytest.approx(9.9)
    assert summary.whole.requests_per_s == pytest.approx(100 / 29)


def test_tokens_count_where_they_arrive() -> None:
    """Case 34: two bursts one second apart leave nothing in between."""
    run = [
        request(0, 0.0, chunk_s=[0.1] * 20 + [1.1] * 20, e2e_s=1.1, stream_close_s=1.1),
        request(1, 0.0, chunk_s=[0.1] * 20 + [1.1] * 20, e2e_s=1.1, stream_close_s=1.1),
    ]
    summary = summarise(run, Promises(), concurrency=2, is_open=False)
    assert summary.whole.output_tokens_per_s == pytest.approx(80 / 1.1)


def test_an_open_loop_is_judged_from_the_intended_time() -> None:
    """Case 4: a wait for the client's own cap is charged to the promise."""
    run = [request(i, i + 0.4, intended_s=float(i)) for i in range(12)]
    summary = summarise(run, PROMISE, concurrency=1, is_open=True)
    assert summary.whole.attainment is not None
    assert summary.whole.attainment.value == 0.0
    closed = summarise(run, PROMISE, concurrency=1, is_open=False)
    assert closed.whole.attainment is not None
    assert closed.whole.attainment.value == 1.0


def test_the_last_attempt_at_a_request_counts() -> None:
    first = request(0, 0.0, status="aborted", attempt=1)
    second = request(0, 5.0, attempt=2)
    assert last_attempts([second, first]) == [second]


def test_an_empty_run_has_no_numbers_and_is_invalid() -> None:
    found = certify([], conditions())
    assert found.verdict == "invalid"
    summary = summarise([], PROMISE, concurrency=4, is_open=False)
    assert summary.whole.ttft_s.mean is None
    assert summary.whole.attainment is None


@pytest.mark.parametrize(
    ("lag_s", "is_calibrated", "ttft_s", "gap_s", "said"),
    [
        (0.002, True, 0.0024, 0.0023, "receive lag of this run and calibration"),
        (0.002, False, 0.002, 0.002, "from the receive lag of this run)"),
        (None, True, 0.0004, 0.0003, "from the calibration)"),
        (None, False, None, None, "unknown (nothing to judge by)"),
    ],
)
def test_the_error_bar_is_the_calibrated_error_and_the_runs_own_lag(
    lag_s: float | None,
    is_calibrated: bool,
    ttft_s: float | None,
    gap_s: float | None,
    said: str,
) -> None:
    known = calibration(ttft_p99_s=0.0004, gap_p99_s=0.0003) if is_calibrated else None
    found = certify(closed_run(), conditions(receive_lag_p99_s=lag_s, calibration=known))
    assert found.error_bar is not None
    assert found.error_bar.ttft_s == (None if ttft_s is None else pytest.approx(ttft_s))
    assert found.error_bar.gap_s == (None if gap_s is None else pytest.approx(gap_s))
    assert said in error_bar_text(found.error_bar)


def half_refused(seen: Seen) -> Script:
    return refusal(429) if seen.index % 2 else chat_stream(["a", "b", "c"], first_ms=20, gap_ms=10)


@pytest.mark.parametrize("as_json", [False, True])
def test_measure_prints_no_number_of_an_invalid_run_and_exits_4(
    tmp_path: Path, as_json: bool
) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(f'{{"prompt": "hello {n}"}}\n' for n in range(8)))
    with FakeEngine(half_refused) as fake:
        kit = start(
            "measure", str(tmp_path / "e"), "--url", fake.url, "--prompts", str(prompts),
            "--requests", "8", "--concurrency", "2", "--regime", "production",
            *(["--json"] if as_json else []),
        )  # fmt: skip
        code, output = finish(kit, timeout_s=60)
    assert code == 4, output
    assert "4 of 8 requests failed" in output
    if not as_json:
        for word in ("TTFT", "TPOT", "output tokens/s", "plateau"):
            assert word not in output
    else:
        (line,) = [line for line in output.splitlines() if line.startswith("{")]
        document = json.loads(line)
        assert document["summary"] is None
        assert document["validity"]["verdict"] == "invalid"
