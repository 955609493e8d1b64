"""Conversations and calls, as they are really sent: history, failures, what is heard."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teardown.load.exchange import BodyRead, Exchange
from teardown.load.history import Piece, heard_until, next_turn, pieces_of
from teardown.load.journal import Attempt, Journal, read_journal
from teardown.load.run import run_load
from teardown.load.silence import silence_of
from teardown.load.summary import summarise
from teardown.measure import whole_sessions
from teardown.records import Request, Speech
from teardown.settings import Limit, Promises
from tests.fakes.engine import FakeEngine, chat_stream, refusal
from tests.fakes.loads import item, load_config, schedule

ANSWER = ["zebra", " quagga"]
LINES: list[dict[str, Any]] = []
for session in range(2):
    messages = [{"role": "system", "content": "Be brief."}]
    for turn in range(3):
        messages = [*messages, {"role": "user", "content": f"question {session}{turn}"}]
        LINES.append({"messages": messages})
        messages = [*messages, {"role": "assistant", "content": "as it was logged"}]


def conversation(number: int, turn: int, **more: Any) -> Any:
    return item(
        3 * number + turn,
        prompt=3 * number + turn,
        session=f"s{number}",
        turn=turn,
        lane=number,
        **more,
    )


def test_the_models_own_answers_become_the_history_and_are_not_kept(tmp_path: Path) -> None:
    items = [conversation(number, turn) for turn in range(3) for number in range(2)]
    plan = schedule(items, kind="sessions", concurrency=2)
    with FakeEngine(chat_stream(ANSWER, first_ms=5, gap_ms=2)) as fake:
        config = load_config(tmp_path, fake.url, plan, prompts=LINES, salt="f00d")
        result = run_load(config, lambda _: None)
        bodies = fake.bodies
    assert result.counts == {"ok": 6}
    last = next(b for b in bodies if b["messages"][-1]["content"] == "question 12")
    assert [m["content"] for m in last["messages"]] == [
        "[f00d] Be brief.",
        "question 10",
        "zebra quagga",
        "question 11",
        "zebra quagga",
        "question 12",
    ]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"quagga" not in kept


def test_a_user_ends_one_conversation_before_the_next_whatever_the_order_of_lines(
    tmp_path: Path,
) -> None:
    items = [replace(conversation(n, turn), lane=0) for turn in range(3) for n in range(2)]
    plan = schedule(items, kind="sessions", concurrency=1)
    with FakeEngine(chat_stream(ANSWER, first_ms=5, gap_ms=2)) as fake:
        config = load_config(tmp_path, fake.url, plan, prompts=LINES)
        run_load(config, lambda _: None)
        asked = [body["messages"][-1]["content"] for body in fake.bodies]
    assert asked == [f"question {n}{turn}" for n in range(2) for turn in range(3)]


def test_a_user_of_a_ramp_begins_at_its_time(tmp_path: Path) -> None:
    items = [
        item(0, lane=0),
        item(1, lane=1, intended_s=0.3),
        item(2, lane=1),
    ]
    plan = schedule(items, kind="ramp", concurrency=2)
    with FakeEngine(chat_stream(ANSWER, first_ms=5, gap_ms=2)) as fake:
        config = load_config(tmp_path, fake.url, plan)
        run_load(config, lambda _: None)
    first, second, third = read_journal(Path(config.journal_path)).requests
    assert first.sent_s is not None
    assert second.sent_s is not None
    assert third.sent_s is not None
    assert first.sent_s < 0.2
    assert 0.3 <= second.sent_s < third.sent_s


def test_a_failed_turn_leaves_the_rest_of_its_session_unsent(tmp_path: Path) -> None:
    items = [conversation(number, turn) for number in range(2) for turn in range(3)]
    plan = schedule([i for i in items if i.session == "s0"], kind="sessions", concurrency=1)
    good = chat_stream(ANSWER, first_ms=5, gap_ms=2)
    with FakeEngine([good, refusal(503)]) as fake:
        config = load_config(tmp_path, fake.url, plan, prompts=LINES)
        result = run_load(config, lambda _: None)
    assert result.counts == {"ok": 1, "refused": 1}
    assert len(read_journal(Path(config.journal_path)).requests) == 2


def test_a_next_turn_counts_from_when_the_answer_has_been_heard(tmp_path: Path) -> None:
    """Two words at 240 a minute play for 0.5 s from the first; then 0.1 s of the caller's own."""
    items = [conversation(0, 0, intended_s=0.2), conversation(0, 1, think_s=0.1)]
    speech = Speech(words_per_minute=240, endpointing_s=0.05)
    plan = schedule(items, kind="voice", concurrency=1, speech=speech)
    with FakeEngine(chat_stream(ANSWER, first_ms=30, gap_ms=2)) as fake:
        config = load_config(tmp_path, fake.url, plan, prompts=LINES)
        run_load(config, lambda _: None)
    first, second = read_journal(Path(config.journal_path)).requests
    assert first.intended_s == pytest.approx(0.2)
    heard_s = first.chunk_s[0] + 0.5
    assert second.intended_s == pytest.approx(heard_s + 0.1, abs=0.005)


def test_words_that_are_late_are_waited_for() -> None:
    speech = Speech(words_per_minute=60, endpointing_s=0.0)
    pieces = [Piece(10.0, "one tw"), Piece(10.1, "o thr"), Piece(20.0, "ee four")]
    # one and two play until 12, three until 13, four comes at 20 and plays until 21
    assert heard_until(pieces, speech) == pytest.approx(21.0)
    assert heard_until([Piece(1.0, " ")], speech) is None


def test_silence_is_endpointing_wait_first_words_and_stalls() -> None:
    speech = Speech(words_per_minute=45, endpointing_s=0.8)  # 1 token a second
    turn = Request(
        request_id="q",
        status="ok",
        intended_s=9.9,
        sent_s=10.0,
        ttfo_s=0.5,
        output_tokens=3,
        chunk_s=[10.5, 11.0, 15.0],
    )
    # the second chunk is played until 12.5; the third comes at 15.0
    assert silence_of(turn, speech) == pytest.approx(0.8 + 0.1 + 0.5 + 2.5)


def test_a_turn_whose_line_has_no_answer_adds_only_what_the_user_says() -> None:
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    line = [{"role": "system", "content": "s"}, {"role": "user", "content": "c"}]
    assert next_turn(history, line) == [*history, line[1]]


def test_a_damaged_answer_has_no_text_to_go_on_with() -> None:
    body = json.dumps({"choices": "none"}).encode()
    exchange = Exchange(content_type="application/json", reads=[BodyRead(1.0, True, body)])
    assert pieces_of(exchange) == []


def test_turns_that_were_never_sent_are_misses_where_their_session_ended() -> None:
    def turn(session: str, number: int, **more: Any) -> Request:
        fields: dict[str, Any] = {"status": "ok", "sent_s": float(number), "e2e_s": 0.5}
        fields |= {"ttft_s": 0.1, "intended_s": float(number)}
        return Request(
            request_id=f"{session}{number}", session=session, turn=number, **(fields | more)
        )

    run = [turn("a", n) for n in range(4)] + [turn("b", n) for n in range(2)]
    lost = {"status": "unsent", "sent_s": None, "intended_s": None, "e2e_s": None, "ttft_s": None}
    run += [turn("b", n, **lost) for n in (2, 3)]
    summary = summarise(
        run, Promises(ttft_s=Limit(p95=1)), concurrency=2, is_open=False, is_live=True
    )
    assert summary.plateau.start_s == 0
    assert summary.plateau.end_s == 1.5
    assert summary.whole.attainment is not None
    assert summary.whole.attainment.value == 6 / 8


def test_a_resumed_run_begins_sessions_again_that_were_cut() -> None:
    plan = schedule([conversation(n, t) for n in range(2) for t in range(2)], kind="sessions")

    def done(number: int, status: str) -> Request:
        return Request(request_id=f"r{number}", session=f"s{number // 3}", status=status)  # type: ignore[arg-type]

    attempt = Attempt(opened={}, closed=None, last_s=1.0)
    cut = Journal(attempts=[attempt], requests=[done(0, "ok"), done(3, "ok")], superseded=[])
    assert whole_sessions(plan, cut.finished, cut) == []
    whole = Journal(attempts=[attempt], requests=[done(0, "ok"), done(1, "ok")], superseded=[])
    assert whole_sessions(plan, whole.finished, whole) == ["r0", "r1"]
    failed = Journal(attempts=[attempt], requests=[done(3, "timeout")], superseded=[])
    assert whole_sessions(plan, failed.finished, failed) == ["r3", "r4"]
    flying = Journal(attempts=[attempt], requests=[done(3, "aborted")], superseded=[])
    assert whole_sessions(plan, flying.finished, flying) == []
