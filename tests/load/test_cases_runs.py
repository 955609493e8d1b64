"""The rows about whole runs: a load process is started, as in use.

Servers write whole, byte by byte or at random places. `cases.py` has the rows as data.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from teardown.measure import measure_run
from teardown.records import Run
from tests.fakes.engine import (
    HANG,
    FakeEngine,
    Script,
    Seen,
    chat_json,
    chat_stream,
    refusal,
    sse,
    stream_script,
    usage_document,
)
from tests.fakes.exchanges import SPLITS
from tests.fakes.interpreter import disturbed, stall, step_wall_clock
from tests.fakes.loads import (
    closed_schedule,
    job_on,
    journal_of,
    load_config,
    open_schedule,
)
from tests.load.cases import delta
from tests.load.runs import in_ms, judged, level, loaded, numbered, quiet, served_by_id, summed
from tests.reports import samples

pytestmark = pytest.mark.parametrize("split", SPLITS)


def test_row_1_large_prompts_do_not_delay_the_first_token(tmp_path: Path, split: str) -> None:
    prompt = "word " * 40_000
    with FakeEngine(chat_stream(["a", "b"], first_ms=100, gap_ms=10), split=split) as fake:
        config = load_config(
            tmp_path,
            fake.url,
            numbered(64, 64),
            prompts=[{"messages": [{"role": "user", "content": prompt}]}],
            ramp_s=0.09,  # 200 KB every 1.4 ms, all sent before the first answer
        )
        _, requests = loaded(config)
        assert len(fake.served[0].seen.body) > 200_000
        assert fake.num_connections == 64
        served = served_by_id(fake)
    assert all(request.status == "ok" for request in requests)
    zero_s = journal_of(config).attempts[0].opened["monotonic_zero"]
    added = [zero_s + r.chunk_s[0] - served[r.request_id].left_s[2] for r in requests]
    assert in_ms(added) < 5
    if split == "whole":  # writing byte by byte to 64 connections takes the server itself longer
        assert in_ms([r.ttft_s or 0.0 for r in requests]) == pytest.approx(100, abs=5)


def test_row_2_a_client_that_reads_late_is_flagged_and_its_stamps_hold_the_truth(
    tmp_path: Path, split: str
) -> None:
    disturbance = stall(at_s=0.02, length_s=0.03, every_s=0.01)
    with FakeEngine(chat_stream(["a"] * 20, first_ms=100, gap_ms=10), split=split) as fake:
        plan = numbered(12, 4)
        config = load_config(tmp_path, fake.url, plan)
        result, requests = loaded(config, python=disturbed(tmp_path, disturbance))
        zero_s = journal_of(config).attempts[0].opened["monotonic_zero"]
        served = served_by_id(fake)
    for request in requests:
        own = served[request.request_id]
        writes = zip(own.written_s[2:22], own.left_s[2:22], strict=True)
        brackets = zip(request.chunk_s, request.stamp_width_s, strict=True)
        for (at, width), (before_s, after_s) in zip(brackets, writes, strict=True):
            # byte by byte, the event is whole two sends before the last one, that of its framing
            assert before_s < zero_s + at + (0.05 if split == "bytes" else 0.001)
            if split != "bytes":  # segments of one byte wait for acknowledgements on their way
                assert zero_s + at - width - 0.001 < after_s
    assert result.receive_lag is not None
    # byte by byte there are many more reads, and the late ones are a smaller part of them
    assert result.receive_lag.p99 > (0.005 if split == "bytes" else 0.015)
    validity = judged(requests, plan, result)
    assert level(validity, "client_limited") == validity.verdict == "invalid"


def test_row_3_two_hundred_are_in_flight_when_two_hundred_are_asked(
    tmp_path: Path, split: str
) -> None:
    events = [(1000.0, delta(content="a")), (1100.0, delta("length", content="b"))]
    with FakeEngine(stream_script(events), split=split) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(200, 200))
        result, requests = loaded(config)
        assert fake.peak_in_flight == result.peak_in_flight == 200
        held = [served.written_s[1] - served.seen.read_s for served in fake.served]
    assert result.counts == {"ok": 200}
    found_ms = in_ms([request.ttft_s or 0.0 for request in requests])
    assert found_ms > in_ms(held) - 10
    if split != "bytes":  # 200 answers begin in one moment: 0.1 s is the server's own time for it
        assert found_ms == pytest.approx(1000, abs=100)


def test_row_4_waiting_for_a_slot_is_in_the_latency_from_intended(
    tmp_path: Path, split: str
) -> None:
    with FakeEngine(chat_stream(["a", "b"], first_ms=50, gap_ms=50), split=split) as fake:
        config = load_config(tmp_path, fake.url, open_schedule(8, 50.0), max_in_flight=1)
        _, requests = loaded(config)
        assert fake.peak_in_flight == 1
    assert [request.intended_s for request in requests] == pytest.approx([n / 50 for n in range(8)])
    free_s = 0.0
    for number, request in enumerate(requests):
        assert request.sent_s is not None and request.client_wait_s is not None
        assert request.e2e_s == pytest.approx(0.1, abs=0.04)
        assert 0 <= request.sent_s - max(free_s, number / 50) < 0.03
        assert request.client_wait_s == pytest.approx(request.sent_s - number / 50)
        assert request.e2e_from_intended_s == pytest.approx(request.client_wait_s + request.e2e_s)
        free_s = request.sent_s + (request.stream_close_s or 0.0)
    # the row's last request: 0.5 + 0.4 x 7 = 3.3 s, at a fifth of its times
    assert 0.65 < (requests[-1].e2e_from_intended_s or 0) < 1.0


def test_row_5_a_slip_of_the_client_is_charged_and_never_re_anchored(
    tmp_path: Path, split: str
) -> None:
    plan = open_schedule(30, 50.0)
    with FakeEngine(chat_stream(["a", "b"], first_ms=10, gap_ms=5), split=split) as fake:
        config = load_config(tmp_path, fake.url, plan)
        slip = disturbed(tmp_path, stall(at_s=0.2, length_s=0.2))
        result, requests = loaded(config, python=slip)
    requests = sorted(requests, key=lambda request: request.intended_s or 0.0)
    assert [request.intended_s for request in requests] == pytest.approx(
        [planned.intended_s for planned in plan.requests]
    )
    waits = [request.client_wait_s or 0.0 for request in requests]
    assert 0.17 <= max(waits) < 0.3  # the first request that was due while it stood still
    assert result.send_lag is not None
    assert result.send_lag.max == pytest.approx(max(waits))
    late = [request for request in requests if (request.client_wait_s or 0) > 0.02]
    assert len(late) >= 8
    for request in late:
        charged = (request.e2e_from_intended_s or 0.0) - (request.e2e_s or 0.0)
        assert charged == pytest.approx(request.client_wait_s)
    assert max(waits[-5:]) < 0.1  # the schedule itself did not move
    assert level(judged(requests, plan, result), "schedule_not_kept") == "invalid"


def test_row_6_a_rate_that_is_not_reached_makes_the_run_invalid(tmp_path: Path, split: str) -> None:
    plan = open_schedule(16, 100.0)
    with FakeEngine(chat_stream(["a", "b"], first_ms=150, gap_ms=50), split=split) as fake:
        config = load_config(tmp_path, fake.url, plan, max_in_flight=4)
        result, requests = loaded(config)
    assert level(judged(requests, plan, result), "schedule_not_kept") == "invalid"

    unsent = judged(requests[:8], plan, result)  # the other half was never sent
    assert unsent.verdict == level(unsent, "schedule_not_kept") == "invalid"
    text = next(check.text for check in unsent.checks if check.code == "schedule_not_kept")
    assert "50.0% of the intended requests were sent" in text


def test_row_26_a_repeat_misses_the_cache_or_is_called_warm(tmp_path: Path, split: str) -> None:
    known: set[str] = set()

    def script(seen: Seen) -> Script:
        prompt = seen.json["messages"][0]["content"]
        is_warm = prompt in known
        known.add(prompt)
        usage = usage_document(3, prompt=100, cached=96 if is_warm else 0)
        first_ms = 5 if is_warm else 100
        return chat_stream(["a", "b", "c"], first_ms=first_ms, gap_ms=5, usage=usage)

    plan = closed_schedule(2, 1)
    plan = replace(plan, requests=[replace(one, prompt=n) for n, one in enumerate(plan.requests)])
    prompts = [{"messages": [{"role": "user", "content": f"question {n}"}]} for n in range(2)]
    found = []
    with FakeEngine(script, split=split) as fake:
        for number, salt in enumerate(("k1", "k2", None, None)):
            folder = tmp_path / str(number)
            folder.mkdir()
            config = load_config(folder, fake.url, plan, prompts=prompts, salt=salt)
            _, requests = loaded(config)
            assert [request.salt for request in requests] == [salt] * 2
            ttft_ms = in_ms([request.ttft_s or 0.0 for request in requests])
            found.append((ttft_ms > 80, level(judged(requests, plan), "warm_cache")))
    assert found == [(True, "ok")] * 3 + [(False, "invalid")]


def test_row_27_the_record_says_the_caches_state_and_nothing_is_flushed(
    tmp_path: Path, split: str
) -> None:
    lines = [{"messages": [{"role": "user", "content": f"question {n}"}]} for n in range(4)]

    def script(seen: Seen) -> Script:
        is_stream = seen.json.get("stream")
        return chat_stream(["a", "b"], first_ms=10) if is_stream else chat_json("ready", at_ms=0)

    with FakeEngine(script, split=split) as fake:
        job = job_on(tmp_path, fake.url, lines)
        runs = [measure_run(job, quiet) for _ in range(2)]
        asked = [served.seen for served in fake.served]
    assert [run.regime for run in runs] == ["cold", "cold"]
    assert len({run.salt for run in runs} - {""}) == 2
    assert {seen.path for seen in asked} == {"/v1/chat/completions"}  # no /flush_cache
    is_timed = ["stream" in seen.json for seen in asked]
    assert is_timed == ([False] * 2 + [True] * 4) * 2  # the warm-up lies before, not between


def test_row_31_refusals_break_the_promise_and_are_never_retried(
    tmp_path: Path, split: str
) -> None:
    answer = chat_stream(["a", "b", "c"], first_ms=10, gap_ms=5)

    def script(seen: Seen) -> Script:
        return refusal(429) if seen.index % 2 else answer

    plan = closed_schedule(40, 2)
    with FakeEngine(script, split=split) as fake:
        result, requests = loaded(load_config(tmp_path, fake.url, plan))
        assert fake.num_requests == 40
    assert result.counts == {"ok": 20, "refused": 20}
    assert result.retries == 0
    found = summed(requests, concurrency=2).whole
    assert found.attainment is not None
    assert (found.attainment.value, found.attainment.n) == (0.5, 40)
    # half of them never answered: the median is not that of the other half
    assert found.ttft_s.p50 is None and found.e2e_s.p50 is None
    assert "20 of 40 requests failed" in found.ttft_s.withheld["p50"]
    validity = judged(requests, plan, result)
    assert level(validity, "errors") == validity.verdict == "invalid"


def test_row_36_answers_of_unequal_length_are_not_compared(tmp_path: Path, split: str) -> None:
    from tuning.trial import make_pair

    def run(name: str, tokens: int) -> Run:
        folder = tmp_path / name
        folder.mkdir()
        plan = closed_schedule(12, 1)
        answer = chat_stream(["a"] * tokens, first_ms=5, gap_ms=0.5, finish_reason="stop")
        extra = {"ignore_eos": True, "min_tokens": 10}
        with FakeEngine(answer, split=split) as fake:
            config = load_config(folder, fake.url, plan, extra_body=extra)
            result, requests = loaded(config)
            assert all(body["min_tokens"] == 10 for body in fake.bodies)
        validity = judged(requests, plan, result)
        found = summed(requests, concurrency=1)
        base = samples.dossier("improved").before_runs[0]
        return replace(base, run=name, validity=replace(validity, verdict="valid"), summary=found)

    before, after = run("r1", 10), run("r2", 5)
    pair = make_pair(before, after, "before", "e2e_p50")
    assert pair.equal_work == pytest.approx(0.5)
    assert pair.excluded == "unequal work: tokens differ by 50.0%"
    assert make_pair(before, replace(before, run="r3"), "before", "e2e_p50").excluded is None


def test_row_37_a_time_out_is_a_class_and_frees_its_slot(tmp_path: Path, split: str) -> None:
    answer = chat_stream(["a", "b", "c"], first_ms=10, gap_ms=5)
    never: Script = [(0.0, HANG)]

    def script(seen: Seen) -> Script:
        return never if seen.index in (1, 3) else answer

    with FakeEngine(script, split=split) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(20, 1), timeout_s=0.25)
        result, requests = loaded(config)
        assert fake.num_requests == 20  # the slot of the silent ones was used again
    assert (result.ended, result.counts) == ("complete", {"ok": 18, "timeout": 2})
    assert all(r.e2e_s is None for r in requests if r.status == "timeout")
    found = summed(requests, concurrency=1).whole.e2e_s
    assert found.p50 is not None
    assert (found.n, found.p50.n) == (18, 20)
    times = sorted(r.e2e_s for r in requests if r.e2e_s is not None)
    assert found.p50.value == pytest.approx((times[9] + times[10]) / 2)  # two stand above them


def test_row_38_a_step_of_the_wall_clock_changes_no_latency(tmp_path: Path, split: str) -> None:
    plan = open_schedule(20, 20.0)
    with FakeEngine(chat_stream(["a", "b"], first_ms=20, gap_ms=10), split=split) as fake:
        config = load_config(tmp_path, fake.url, plan)
        step = disturbed(tmp_path, step_wall_clock(by_s=-5, at_s=0.5))
        result, requests = loaded(config, python=step)
    assert result.counts == {"ok": 20}
    for request in requests:
        assert request.ttft_s == pytest.approx(0.02, abs=0.02)
        assert request.max_gap_s == pytest.approx(0.01, abs=0.01)
        assert request.client_wait_s == pytest.approx(0.0, abs=0.03)
    assert result.clock_events == 1
    assert result.clock_offset_moved_s == pytest.approx(5, abs=0.01)
    validity = judged(requests, plan, result)
    assert level(validity, "clock") == validity.verdict == "invalid"


def test_row_41_connections_are_reused_over_thousands_of_requests(
    tmp_path: Path, split: str
) -> None:
    count = 5000 if split == "whole" else 500
    answer = stream_script([(0.0, delta("length", content="a") + sse("[DONE]"))])
    with FakeEngine(answer, split=split) as fake:
        result, _ = loaded(load_config(tmp_path, fake.url, closed_schedule(count, 10)))
        assert fake.num_requests == count
        assert fake.num_connections == result.connections == 10
    assert result.counts == {"ok": count}


def test_row_43_concurrency_is_never_above_what_was_asked(tmp_path: Path, split: str) -> None:
    with FakeEngine(chat_stream(["a", "b"], first_ms=10, gap_ms=5), split=split) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(40, 3, lanes=8))
        result, _ = loaded(config)
        assert fake.peak_in_flight == result.peak_in_flight == 3
        assert fake.peak_connections <= 3
    assert result.counts == {"ok": 40}
