"""The load process as a whole, started as it is in use."""

import itertools
import json
from pathlib import Path

import pytest

from teardown.load.config import Progress
from teardown.load.journal import read_journal
from teardown.load.run import run_load
from tests.fakes.engine import (
    HANG,
    STREAM_HEAD,
    FakeEngine,
    Script,
    chat_events,
    chat_stream,
    stream_script,
)
from tests.fakes.loads import (
    closed_schedule,
    item,
    journal_of,
    load_config,
    open_schedule,
    schedule,
)

ANSWER = chat_stream(["a", "b", "c"], first_ms=10, gap_ms=5)
WAITING: Script = [(0.0, STREAM_HEAD), (1.0, HANG)]


def quiet(progress: Progress) -> None:
    """Progress that nobody reads."""


def test_a_closed_loop_sends_everything_at_the_asked_concurrency(tmp_path: Path) -> None:
    seen: list[Progress] = []
    with FakeEngine(chat_stream(["a", "b", "c"], first_ms=20, gap_ms=10)) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(60, 6), salt="k7")
        result = run_load(config, seen.append)
        assert fake.peak_in_flight == result.peak_in_flight == 6
        assert fake.num_connections == result.connections == 6  # case 41: reused
        assert all(body["messages"][0]["content"] == "[k7] Say hello." for body in fake.bodies)
        assert all(body["stream_options"] == {"include_usage": True} for body in fake.bodies)
    journal = journal_of(config)
    assert (result.ended, result.counts, journal.is_complete) == ("complete", {"ok": 60}, True)
    assert {request.request_id for request in journal.requests} == {f"r{n}" for n in range(60)}
    assert all(request.salt == "k7" for request in journal.requests)
    assert (seen[-1].done, seen[-1].total, seen[-1].in_flight) == (60, 60, 0)
    assert result.kernel_stamps
    assert result.receive_lag is not None
    assert result.cpu_s > 0


def test_stamps_of_the_load_process_are_the_times_at_which_the_server_wrote(
    tmp_path: Path,
) -> None:
    with FakeEngine(chat_stream(["a"] * 10, first_ms=20, gap_ms=10)) as fake:
        plan = schedule([item(n, lane=n % 2, max_tokens=100 + n) for n in range(20)], concurrency=2)
        config = load_config(tmp_path, fake.url, plan)
        run_load(config, quiet)
        written_s = {f"r{s.seen.json['max_tokens'] - 100}": s.written_s for s in fake.served}
    journal = journal_of(config)
    zero_s = journal.attempts[0].opened["monotonic_zero"]
    errors = []
    for request in journal.requests:
        truth = written_s[request.request_id][2:12]  # after the head and the role
        errors += [zero_s + at - true for at, true in zip(request.chunk_s, truth, strict=True)]
    errors.sort()
    assert errors[0] > -0.0001
    assert errors[len(errors) // 2] < 0.0005


def test_an_open_loop_does_not_wait_for_answers(tmp_path: Path) -> None:
    with FakeEngine(chat_stream(["a", "b"], first_ms=300, gap_ms=10)) as fake:
        config = load_config(tmp_path, fake.url, open_schedule(20, 100.0))
        result = run_load(config, quiet)
        assert fake.peak_in_flight >= 15
    waits = [request.client_wait_s or 0.0 for request in journal_of(config).requests]
    assert min(waits) >= 0  # never early
    assert sorted(waits)[10] < 0.02
    assert result.send_lag is not None


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_a_turn_is_not_sent_before_the_turn_before_it_has_ended(tmp_path: Path, kind: str) -> None:
    turns = [
        item(n, session=f"s{n % 2}", turn=n // 2, lane=n % 2, intended_s=0.02 * n) for n in range(6)
    ]
    with FakeEngine(chat_stream(["a", "b"], first_ms=60, gap_ms=20)) as fake:
        plan = schedule(turns, kind=kind, concurrency=2)
        config = load_config(tmp_path, fake.url, plan)
        run_load(config, quiet)
    for session in ("s0", "s1"):
        own = [r for r in journal_of(config).requests if r.session == session]
        assert [request.turn for request in own] == [0, 1, 2]
        for before, after in itertools.pairwise(own):
            assert before.sent_s is not None and after.sent_s is not None
            assert after.sent_s >= before.sent_s + (before.stream_close_s or 0)
        if kind == "open":
            assert (own[2].client_wait_s or 0) > 0.05  # late by the turns before it


def test_think_time_and_ramp_pace_a_closed_loop(tmp_path: Path) -> None:
    turns = [item(n, lane=n % 2, think_s=0.1 if n > 1 else 0.0) for n in range(4)]
    with FakeEngine(ANSWER) as fake:
        config = load_config(tmp_path, fake.url, schedule(turns, concurrency=2), ramp_s=0.4)
        run_load(config, quiet)
    by_id = {request.request_id: request for request in journal_of(config).requests}
    assert by_id["r0"].sent_s == pytest.approx(0.0, abs=0.05)
    assert by_id["r1"].sent_s == pytest.approx(0.2, abs=0.05)
    first, second = by_id["r0"], by_id["r2"]
    assert first.sent_s is not None and first.stream_close_s is not None
    assert second.sent_s == pytest.approx(first.sent_s + first.stream_close_s + 0.1, abs=0.04)
    assert second.client_wait_s == pytest.approx(0.0, abs=0.03)


def test_a_key_comes_from_the_environment_and_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", "sk-very-secret")
    prompts = [{"prompt": "Once upon a time", "extra": {"seed": 7}}]
    with FakeEngine(ANSWER) as fake:
        config = load_config(
            tmp_path,
            fake.url,
            closed_schedule(2, 1),
            prompts=prompts,
            api_key_env="FAKE_KEY",
            salt="k7",
            salt_field="cache_salt",
            extra_body={"temperature": 0},
            extra_headers={"X-Team": "voice"},
        )
        run_load(config, quiet)
        seen = fake.served[0].seen
    assert seen.path == "/v1/completions"
    assert seen.headers["authorization"] == "Bearer sk-very-secret"
    assert seen.headers["x-team"] == "voice"
    body = seen.json
    assert (body["prompt"], body["cache_salt"], body["max_tokens"]) == (
        "Once upon a time",
        "k7",
        16,
    )
    assert (body["seed"], body["temperature"]) == (7, 0)
    for path in tmp_path.iterdir():
        assert b"sk-very-secret" not in path.read_bytes()
        if path.name.startswith("requests"):
            assert b"Once upon" not in path.read_bytes()


def test_pings_and_slow_bytes_reach_the_record_end_to_end(tmp_path: Path) -> None:
    events = [(5.0, b": ping\n\n"), *chat_events(["Hel", "lo"], first_ms=40, gap_ms=20)]
    with FakeEngine(stream_script(sorted(events, key=lambda event: event[0]))) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(3, 1))
        run_load(config, quiet)
    for request in journal_of(config).requests:
        assert request.ttft_s == pytest.approx(0.04, abs=0.015)
        assert request.max_gap_s == pytest.approx(0.02, abs=0.01)


def test_the_journal_is_json_lines_from_open_to_close(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(2, 1))
        run_load(config, quiet)
    lines = [json.loads(line) for line in Path(config.journal_path).read_text().splitlines()]
    events = [line["event"] for line in lines]
    assert (events[0], events[-1]) == ("open", "close")
    assert sorted(events[1:-1]) == ["end", "end", "start", "start"]
    assert lines[0]["schema"] == "teardown.journal/1"
    assert {"monotonic_zero", "unix_zero", "attempt"} <= set(lines[0])
    assert {"counts", "receive_lag", "send_lag", "cpu_s", "events", "ended"} <= set(lines[-1])
    assert lines[-1]["events"] == 14  # role, three contents, finish, usage, [DONE], twice
    assert read_journal(Path(config.journal_path)).is_complete
