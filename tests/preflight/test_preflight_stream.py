"""Each finding about the stream, good and bad, against a scripted server."""

import pytest

from teardown.preflight.finding import Finding
from teardown.preflight.stream import stream
from tests.fakes.engine import (
    CLOSE,
    HANG,
    STREAM_HEAD,
    Script,
    chat_error,
    chat_events,
    chat_json,
    chat_stream,
    chunk_document,
    http_chunk,
    http_reply,
    sse,
    stream_script,
    usage_document,
)
from tests.preflight.endpoints import WORDS, by_name, endpoint, missing, probe, whole


def findings(main: Script, **spoilt: Script) -> dict[str, Finding]:
    report, _ = probe(endpoint(chat=main, **spoilt))
    return by_name(stream(report))


def test_a_good_stream_passes_every_check() -> None:
    report, fake = probe(endpoint())
    found = by_name(stream(report))
    assert {name: f.level for name, f in found.items()} == dict.fromkeys(
        ("streaming", "role chunk", "tokens per chunk", "usage", "format", "reasoning"), "ok"
    )
    assert "32 chunks over 6" in found["streaming"].text  # 62 ms
    assert "not streamed the answer takes 9" in found["streaming"].text  # 92 ms
    assert found["tokens per chunk"].text == "32 tokens in 32 chunks"
    assert found["usage"].text == "in an event of its own"
    assert found["format"].text == "LF lines, finish reason length, [DONE]"
    assert fake.num_requests == len(report.replies) == 6
    assert fake.peak_in_flight == 1


def test_every_request_asks_for_at_most_64_tokens() -> None:
    _, fake = probe(endpoint())
    asked = [body.get("max_tokens", body.get("max_output_tokens")) for body in fake.bodies]
    assert all(0 < number <= 64 for number in asked)


def test_one_json_document_instead_of_a_stream_fails() -> None:
    found = findings(chat_json("one two"))["streaming"]
    assert found.level == "fail"
    assert "one JSON document" in found.text
    assert "not_streaming" in found.text


def test_a_whole_stream_in_one_read_fails() -> None:
    events = b"".join(data for _, data in chat_events(WORDS))
    found = findings(stream_script([(60.0, events)]))["streaming"]
    assert found.level == "fail"
    assert "32 chunks came in one read after 6" in found.text
    assert "proxy_buffering" in found.fix


def test_all_tokens_in_one_chunk_fails() -> None:
    found = findings(chat_stream(["one two three"], usage=usage_document(32)))["streaming"]
    assert (found.level, "all 32 tokens came as one chunk" in found.text) == ("fail", True)


def test_one_token_is_too_little_to_tell() -> None:
    found = findings(chat_stream(["one"]))["streaming"]
    assert (found.level, "too little" in found.text) == ("warn", True)


def test_an_answer_that_is_held_back_until_it_is_ready_is_noticed() -> None:
    main = chat_stream(WORDS[:10], first_ms=200, gap_ms=1)
    found = findings(main, whole=chat_json("one", at_ms=205))["streaming"]
    assert (found.level, "held back" in found.text) == ("warn", True)
    # the same stream where the whole answer takes longer: a slow start and a fast end
    found = findings(main, whole=chat_json("one", at_ms=400))["streaming"]
    assert found.level == "ok"


def test_chunks_in_bursts_are_noticed() -> None:
    events = chat_events(WORDS)
    bursts = [
        (20.0 * burst, b"".join(data for _, data in events[1 + 8 * burst : 9 + 8 * burst]))
        for burst in range(4)
    ]
    found = findings(stream_script([*bursts, (80.0, events[-1][1])]))["streaming"]
    assert found.level == "warn"
    assert "in 4 reads" in found.text


def test_the_role_chunk_is_not_the_first_token() -> None:
    found = findings(chat_stream(WORDS, role_ms=5, first_ms=80, gap_ms=1))["role chunk"]
    role, content = found.text.split(", ")
    assert role.startswith("its event after 5") or role.startswith("its event after 6")
    assert content.startswith("content after 8")


def test_a_stream_without_a_role_chunk_says_so() -> None:
    events = chat_events(WORDS)[1:]
    assert "no event of its own" in findings(stream_script(events))["role chunk"].text


def test_chunks_of_several_tokens_cost_tpot_unless_they_say_their_count() -> None:
    several = findings(chat_stream(WORDS[:8], usage=usage_document(32)))["tokens per chunk"]
    assert several.level == "warn"
    assert several.text.startswith("32 tokens in 8 chunks, and none says how many")
    assert "continuous_usage_stats" in several.fix
    events = [
        (10.0 * n, sse(chunk_document({"content": "one"}, usage=usage_document(4 * n))))
        for n in range(1, 9)
    ]
    finish = sse(chunk_document({}, "length", usage=usage_document(32))) + sse("[DONE]")
    found = findings(stream_script([*events, (80.0, finish)]))
    assert found["tokens per chunk"].level == "ok"
    assert found["tokens per chunk"].text.endswith("each says its count")
    assert found["usage"].text == "in events with content and the event with the finish reason"


def test_a_stream_without_usage_costs_every_token_count() -> None:
    events = [
        *chat_events(WORDS, finish_reason=None, done=False),
        (400.0, sse(chunk_document({}, "length")) + sse("[DONE]")),
    ]
    found = findings(stream_script(events))
    assert (found["usage"].level, found["tokens per chunk"].level) == ("warn", "warn")
    assert "stream_options" in found["usage"].text


def test_carriage_returns_and_keep_alives_are_read_and_named() -> None:
    events = chat_events(WORDS, first_ms=50)
    crlf = [(at, data.replace(b"\n", b"\r\n")) for at, data in events]
    found = findings(stream_script([(10.0, b": ping\r\n\r\n"), (30.0, b": ping\r\n\r\n"), *crlf]))
    assert found["format"].level == "ok"
    assert found["format"].text.startswith("CRLF lines, finish reason length, [DONE], 2 comments")
    assert found["streaming"].text.startswith("32 chunks")


def test_a_stream_without_its_end_is_cut() -> None:
    script = stream_script(chat_events(WORDS, finish_reason=None, done=False))
    found = findings(script)
    assert (found["answer"].level, "cut" in found["answer"].text) == ("fail", True)
    assert found["format"].level == "warn"


def test_a_missing_done_is_no_fault_where_there_is_a_finish_reason() -> None:
    found = findings(stream_script(chat_events(WORDS, done=False)))["format"]
    assert (found.level, found.text.endswith("no [DONE]")) == ("ok", True)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_found_under_either_key(key: str) -> None:
    thoughts = [(10.0 + n, sse(chunk_document({key: "hm"}))) for n in range(4)]
    found = findings(stream_script([*thoughts, *chat_events(WORDS, first_ms=40)[1:]]))["reasoning"]
    assert f"under `{key}`" in found.text
    assert "no answer" not in found.text
    end = sse(chunk_document({}, "length", usage=usage_document(4))) + sse("[DONE]")
    found = findings(stream_script([*thoughts, (20.0, end)]))["reasoning"]
    assert "no answer came within the probe" in found.text


def test_reasoning_that_is_counted_but_not_streamed_is_named() -> None:
    usage = usage_document(48, reasoning=16)
    found = findings(chat_stream(WORDS, usage=usage))["reasoning"]
    assert (found.level, "16 tokens of it" in found.text) == ("warn", True)


def test_an_error_inside_the_main_answer_fails() -> None:
    found = findings(chat_error(["one", "two"], "out of memory"))["answer"]
    assert (found.level, "out of memory" in found.text) == ("fail", True)


def test_a_key_that_is_wanted_by_the_requests_alone_fails() -> None:
    refused = http_reply(b'{"error": {"message": "no key"}}', status="401 Unauthorized")
    report, fake = probe(endpoint(chat=[(0.0, refused)]))
    (found,) = stream(report)
    assert (found.level, "401" in found.text, "--api-key-env" in found.fix) == ("fail", True, True)
    assert fake.num_requests == 1  # nothing more is asked


def test_a_login_page_instead_of_an_answer_fails() -> None:
    page = http_reply(b"<!DOCTYPE html><html>log in", content_type="text/html")
    report, fake = probe([(0.0, page)])
    (found,) = stream(report)
    assert (found.level, "web page" in found.text) == ("fail", True)
    assert fake.num_requests == 1


def test_a_server_that_answers_nothing_in_time_is_slow_and_not_broken() -> None:
    report, fake = probe(endpoint(chat=[(0.0, STREAM_HEAD), (1.0, HANG)]), budget_s=0.3)
    (found,) = stream(report)
    assert (found.level, "nothing came" in found.text) == ("warn", True)
    assert fake.num_requests == 1
    assert report.elapsed_s < 2


def test_what_came_of_a_slow_answer_is_judged() -> None:
    head = [(at, http_chunk(data)) for at, data in chat_events(WORDS)[:5]]
    report, _ = probe(endpoint(chat=[(0.0, STREAM_HEAD), *head, (60.0, HANG)]), budget_s=0.4)
    found = by_name(stream(report))
    assert "4 chunks came" in found["answer"].text
    assert found["streaming"].text.startswith("4 chunks over")


def test_a_path_that_takes_no_requests_fails_once() -> None:
    report, fake = probe(missing())
    (found,) = stream(report)
    assert (found.level, "HTTP 404: not found" in found.text) == ("fail", True)
    assert found.fix == "check the path and the name of the model"
    assert fake.num_requests == 2  # chat, then completions


def test_a_server_that_closes_without_a_word_fails() -> None:
    found = findings([(0.0, CLOSE)], whole=whole())["answer"]
    assert found.level == "fail"
    assert "small request failed" in found.text
