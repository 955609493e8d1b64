"""What an answer means, by the cases of the peers' own bug trackers; times in milliseconds."""

import hashlib
import json
from typing import Any

import pytest

from teardown.load.exchange import BodyRead
from teardown.records import Request
from tests.fakes.engine import chat_events, chunk_document, sse, usage_document
from tests.fakes.exchanges import SENT_S, SPLITS, request_of, streamed

pytestmark = pytest.mark.parametrize("split", SPLITS)


def ms(value: float | None) -> float | None:
    return None if value is None else round(value * 1000, 6)


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return sse(chunk_document(fields, finish))


def ending(usage: dict[str, Any] | None, finish: str = "length") -> bytes:
    return delta(finish) + (sse(chunk_document(usage=usage)) if usage else b"") + sse("[DONE]")


def four_tokens_a_chunk(
    *, per_chunk_usage: bool, finish: str = "length"
) -> list[tuple[float, bytes]]:
    events = []
    for number in range(10):
        more = {"usage": usage_document(4 * (number + 1))} if per_chunk_usage else {}
        document = chunk_document({"content": "a b c d "}, **more)
        events.append((100.0 + 40 * number, sse(document)))
    return [*events, (460.0, ending(usage_document(40), finish))]


def test_case_7_a_role_and_empty_chunks_are_no_first_token(split: str) -> None:
    events = [(20.0, delta(role="assistant", content="")), (100.0, delta(content=""))]
    events += [(220.0 + 10 * n, delta(content="x")) for n in range(5)]
    request = request_of(streamed([*events, (260.0, ending(usage_document(5)))], split))
    assert (ms(request.ttft_s), ms(request.e2e_s), ms(request.max_gap_s)) == (220, 260, 10)
    assert ms(request.tpot_s) == 10
    assert [ms(at) for at in request.chunk_s] == [2220, 2230, 2240, 2250, 2260]


def test_white_space_is_a_first_token_but_not_a_first_output(split: str) -> None:
    events = [(50.0, delta(content="\n\n")), (80.0, delta(content="Hi"))]
    request = request_of(streamed([*events, (80.0, ending(usage_document(2)))], split))
    assert (ms(request.ttft_s), ms(request.ttfo_s)) == (50, 80)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_case_9_reasoning_is_a_first_token_and_the_answer_a_first_output(
    split: str, key: str
) -> None:
    other = {"reasoning": "reasoning_content", "reasoning_content": "reasoning"}[key]
    events = [
        (100.0 + 100 * n, delta(**{key: "hm", other: None, "content": None})) for n in range(5)
    ]
    events.append((600.0, delta(content="42")))
    usage = usage_document(6, reasoning=5)
    request = request_of(streamed([*events, (600.0, ending(usage))], split))
    assert (ms(request.ttft_s), ms(request.ttfo_s)) == (100, 600)
    assert request.reasoning_tokens == 5
    assert request.text_sha256 == hashlib.sha256(b"42").hexdigest()
    assert ms(request.tpot_s) == 100


def test_case_10_reasoning_tokens_are_inside_the_output_tokens(split: str) -> None:
    events = [(100.0 + 10 * n, delta(content="x")) for n in range(10)]
    usage = usage_document(30, reasoning=20)
    request = request_of(streamed([*events, (190.0, ending(usage))], split))
    assert (request.output_tokens, request.reasoning_tokens) == (30, 20)
    assert ms(request.tpot_s) == 10  # twenty tokens of reasoning were never streamed
    assert request.first_chunk_tokens == 1


def test_null_details_are_unknown_and_not_zero(split: str) -> None:
    request = request_of(streamed(chat_events(["a", "b", "c"]), split))
    assert request.reasoning_tokens is None
    assert request.cached_tokens is None
    assert {"reasoning_tokens", "cached_tokens"} <= set(request.reasons)


def test_case_11_chunks_of_several_tokens_give_gaps_and_no_guessed_tpot(split: str) -> None:
    request = request_of(streamed(four_tokens_a_chunk(per_chunk_usage=False), split))
    assert ms(request.max_gap_s) == 40
    assert request.first_chunk_tokens is None
    assert request.tpot_s is None
    assert "chunks and tokens differ" in request.reasons["tpot_s"]


@pytest.mark.parametrize("finish", ["length", "stop"])
def test_case_12_tokens_of_the_first_chunk_are_not_decoded_after_it(
    split: str, finish: str
) -> None:
    events = four_tokens_a_chunk(per_chunk_usage=True, finish=finish)
    request = request_of(streamed(events, split))
    assert request.first_chunk_tokens == 4
    assert ms(request.tpot_s) == 10  # 360 / 36, not 360 / 39


def test_log_probabilities_count_the_tokens_of_a_chunk(split: str) -> None:
    events = []
    for number in range(4):
        document = chunk_document({"content": "ab"})
        document["choices"][0]["logprobs"] = {"content": [{"token": "a"}, {"token": "b"}]}
        events.append((100.0 + 20 * number, sse(document)))
    request = request_of(streamed([*events, (160.0, ending(usage_document(8)))], split))
    assert (request.first_chunk_tokens, ms(request.tpot_s)) == (2, 10)


def test_the_end_token_is_no_visible_token(split: str) -> None:
    events = [(100.0 + 10 * n, delta(content="x")) for n in range(10)]
    request = request_of(streamed([*events, (200.0, ending(usage_document(11), "stop"))], split))
    assert request.output_tokens == 11
    assert ms(request.tpot_s) == 10  # 90 / 9: ten visible tokens


@pytest.mark.parametrize("place", ["own", "with_finish", "with_last_token", "empty_choices_first"])
def test_case_15_usage_is_read_from_any_chunk(split: str, place: str) -> None:
    usage = usage_document(3, prompt=7, cached=5)
    first = (10.0, delta(content="a"))
    last = chunk_document(
        {"content": "c"}, None, **({"usage": usage} if place == "with_last_token" else {})
    )
    finish = chunk_document({}, "length", **({"usage": usage} if place == "with_finish" else {}))
    tail = (
        sse(finish) + (sse(chunk_document(usage=usage)) if place == "own" else b"") + sse("[DONE]")
    )
    if place == "empty_choices_first":
        first = (10.0, sse(chunk_document(usage=usage)) + first[1])
    events = [first, (20.0, delta(content="b")), (30.0, sse(last)), (31.0, tail)]
    request = request_of(streamed(events, split))
    assert (request.prompt_tokens, request.output_tokens, request.cached_tokens) == (7, 3, 5)
    assert request.output_tokens_source == "usage"
    assert ms(request.tpot_s) == 10


def test_case_17_without_usage_the_count_is_unknown_and_says_so(split: str) -> None:
    events = [(10.0 * n, delta(content="a")) for n in range(1, 6)]
    request = request_of(streamed([*events, (50.0, ending(None))], split))
    assert request.status == "ok"
    assert request.output_tokens is request.tpot_s is request.output_tokens_source is None
    assert "usage" in request.reasons["output_tokens"]
    assert "usage" in request.reasons["tpot_s"]


@pytest.mark.parametrize("kind", ["object", "text", "event", "old"])
def test_case_18_an_error_inside_a_200_is_a_failure_that_keeps_its_chunks(
    split: str, kind: str
) -> None:
    error = {
        "object": sse({"error": {"message": "out of memory", "code": 500}}),
        "text": sse({"error": "out of memory"}),
        "event": b'event: error\ndata: {"message": "out of memory"}\n\n',
        "old": sse({"object": "error", "message": "out of memory"}),
    }[kind]
    events = [(10.0 * n, delta(content="a")) for n in range(1, 6)]
    request = request_of(streamed([*events, (60.0, error + sse("[DONE]"))], split))
    assert (request.status, request.error, request.http_status) == ("error", "out of memory", 200)
    assert len(request.chunk_s) == 5
    assert request.e2e_s is request.tpot_s is None


@pytest.mark.parametrize("how", ["closed", "reset", "complete"])
def test_case_19_a_stream_without_its_end_is_cut(split: str, how: str) -> None:
    events = [(10.0 * n, delta(content="a")) for n in range(1, 6)]
    closed_s = SENT_S + 0.06 if how == "complete" else None
    request = request_of(streamed(events, split, ending=how, closed_s=closed_s))
    assert request.status == "cut"
    assert request.e2e_s is request.tpot_s is None
    assert len(request.chunk_s) == 5
    assert ms(request.ttft_s) == 10


@pytest.mark.parametrize("tail", [delta("length"), sse("[DONE]")])
def test_a_finish_reason_or_done_completes_an_answer(split: str, tail: bytes) -> None:
    events = [(10.0, delta(content="a")), (20.0, delta(content="b")), (21.0, tail)]
    assert request_of(streamed(events, split)).status == "ok"


def test_case_20_a_200_without_content_is_empty(split: str) -> None:
    request = request_of(streamed([(10.0, sse("[DONE]"))], split))
    assert request.status == "empty"
    assert request.ttft_s is request.e2e_s is None
    assert request.reasons["ttft_s"] == "no content arrived"


def test_case_21_text_is_the_same_when_a_character_is_split(split: str) -> None:
    raw = delta(content="中文 🙂")
    events = [(10.0, raw[:70]), (20.0, raw[70:]), (30.0, delta(content="!"))]
    cut = next(i for i, byte in enumerate(raw) if byte == 0xE4) + 1
    events = [(10.0, raw[:cut]), (20.0, raw[cut:]), (30.0, delta(content="!"))]
    request = request_of(streamed([*events, (30.0, ending(usage_document(2)))], split))
    assert request.text_sha256 == hashlib.sha256("中文 🙂!".encode()).hexdigest()
    assert ms(request.ttft_s) == 20  # the first event was complete only then


def test_case_22_a_ping_is_no_token_and_no_time(split: str) -> None:
    events = [(50.0, b": ping\n\n"), (100.0, delta(content="a")), (105.0, b": ping\n\n")]
    events += [(110.0, delta(content="b")), (111.0, ending(usage_document(2)))]
    request = request_of(streamed(events, split))
    assert (ms(request.ttft_s), ms(request.max_gap_s), ms(request.e2e_s)) == (100, 10, 110)


def test_case_23_a_space_at_the_edge_of_a_read_is_kept(split: str) -> None:
    raw = delta(content="hello world")
    cut = raw.index(b" world") + 1
    events = [(10.0, raw[:cut]), (11.0, raw[cut:]), (12.0, delta(content="."))]
    request = request_of(streamed([*events, (12.0, ending(usage_document(2)))], split))
    assert request.text_sha256 == hashlib.sha256(b"hello world.").hexdigest()


def test_case_24_line_ends_and_field_forms_do_not_matter(split: str) -> None:
    def variant(form: str) -> Request:
        events = []
        for t_ms, raw in chat_events(["Hello", " wor", "ld"]):
            changed = {
                "lf": raw,
                "crlf": raw.replace(b"\n", b"\r\n"),
                "cr": raw.replace(b"\n", b"\r"),
                "no_space": raw.replace(b"data: ", b"data:"),
                "named": raw.replace(b"data: ", b"event: message\ndata: "),
                "two_lines": raw.replace(b'"object":', b'\ndata: "object":'),
            }[form]
            events.append((t_ms, changed))
        return request_of(streamed(events, split))

    expected = variant("lf")
    assert expected.text_sha256 == hashlib.sha256(b"Hello world").hexdigest()
    for form in ("crlf", "cr", "no_space", "named", "two_lines"):
        assert variant(form) == expected, form


def test_case_39_a_json_reply_has_no_first_token(split: str) -> None:
    document = {
        "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": usage_document(3),
    }
    events = [(500.0, json.dumps(document).encode())]
    request = request_of(streamed(events, split, content_type="application/json"))
    assert request.status == "ok"
    assert ms(request.e2e_s) == 500
    assert request.ttft_s is request.tpot_s is request.ttfo_s is None
    assert request.reasons["ttft_s"].startswith("not streamed")
    assert (request.output_tokens, request.finish_reason) == (3, "stop")


def test_case_42_all_chunks_in_one_read_are_not_streamed(split: str) -> None:
    raw = b"".join(data for _, data in chat_events(["a", "b", "c"]))
    request = request_of(streamed([(1700.0, raw)], split))
    assert request.status == "ok"
    assert request.ttft_s is request.tpot_s is None
    assert request.reasons["ttft_s"].startswith("not streamed")
    assert ms(request.e2e_s) == 1700


def test_one_token_alone_is_a_first_token(split: str) -> None:
    request = request_of(streamed(chat_events(["a"], first_ms=30), split))
    assert ms(request.ttft_s) == 30
    assert request.reasons["tpot_s"] == "the answer is one chunk"


def test_tool_calls_are_content_and_their_arguments_are_output(split: str) -> None:
    def call(**function: Any) -> bytes:
        return delta(tool_calls=[{"index": 0, "function": function}])

    events = [(100.0, call(name="look_up", arguments="")), (150.0, call(arguments='{"a":'))]
    events += [(200.0, call(arguments="1}")), (201.0, ending(usage_document(4), "tool_calls"))]
    request = request_of(streamed(events, split))
    assert (request.status, request.finish_reason) == ("ok", "tool_calls")
    assert (ms(request.ttft_s), ms(request.ttfo_s), ms(request.e2e_s)) == (100, 150, 200)


def test_llama_cpp_says_what_it_did_and_what_it_had_cached(split: str) -> None:
    timings = {
        "cache_n": 11,
        "prompt_n": 4,
        "prompt_ms": 80.0,
        "predicted_n": 3,
        "predicted_ms": 30.0,
    }
    request = request_of(streamed(chat_events(["a", "b", "c"], more={"timings": timings}), split))
    assert request.cached_tokens == 11
    assert request.server is not None
    assert (request.server.prefill_s, request.server.decode_s) == (0.08, 0.03)
    assert (request.server.prefill_tokens, request.server.decode_tokens) == (4, 3)


def test_the_completions_endpoint_has_its_text_in_the_choice(split: str) -> None:
    def text(part: str, finish: str | None = None) -> bytes:
        return sse({"choices": [{"index": 0, "text": part, "finish_reason": finish}]})

    events = [(10.0, text("a")), (20.0, text("b")), (30.0, text("", "length") + sse("[DONE]"))]
    request = request_of(streamed(events, split))
    assert (request.status, ms(request.ttft_s), ms(request.e2e_s)) == ("ok", 10, 20)


def test_chunks_in_one_read_share_a_bracket(split: str) -> None:
    events = [(10.0, delta(content="a")), (50.0, delta(content="b") + delta(content="c"))]
    exchange = streamed([*events, (60.0, ending(usage_document(3)))], "whole")
    request = request_of(exchange)
    assert [ms(width) for width in request.stamp_width_s] == [0, 40, 40]
    assert all(isinstance(read, BodyRead) for read in exchange.reads), split
