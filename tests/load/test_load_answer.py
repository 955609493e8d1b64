"""What an answer means, beside the cases of `test_cases.py`; times in milliseconds."""

from typing import Any

import pytest

from teardown.load.exchange import BodyRead
from tests.fakes.engine import chat_events, chunk_document, sse, usage_document
from tests.fakes.exchanges import SPLITS, request_of, streamed
from tests.load.cases import delta, ending

pytestmark = pytest.mark.parametrize("split", SPLITS)


def ms(value: float | None) -> float | None:
    return None if value is None else round(value * 1000, 6)


def test_white_space_is_a_first_token_but_not_a_first_output(split: str) -> None:
    events = [(50.0, delta(content="\n\n")), (80.0, delta(content="Hi"))]
    request = request_of(streamed([*events, (80.0, ending(usage_document(2)))], split))
    assert (ms(request.ttft_s), ms(request.ttfo_s)) == (50, 80)


def test_null_details_are_unknown_and_not_zero(split: str) -> None:
    request = request_of(streamed(chat_events(["a", "b", "c"]), split))
    assert request.reasoning_tokens is None
    assert request.cached_tokens is None
    assert {"reasoning_tokens", "cached_tokens"} <= set(request.reasons)


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


@pytest.mark.parametrize("tail", [delta("length"), sse("[DONE]")])
def test_a_finish_reason_or_done_completes_an_answer(split: str, tail: bytes) -> None:
    events = [(10.0, delta(content="a")), (20.0, delta(content="b")), (21.0, tail)]
    assert request_of(streamed(events, split)).status == "ok"


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
