"""The responses endpoint: the same words, times and counts as from the other two."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from teardown.load.prompts import Prompts
from teardown.load.run import run_load
from tests.fakes.engine import FakeEngine, stream_script
from tests.fakes.exchanges import SPLITS, request_of, streamed
from tests.fakes.loads import closed_schedule, item, journal_of, load_config

Events = list[tuple[float, bytes]]
split_every_way = pytest.mark.parametrize("split", SPLITS)


def event(kind: str, **fields: Any) -> bytes:
    text = json.dumps({"type": f"response.{kind}", **fields}, ensure_ascii=False)
    return f"event: response.{kind}\ndata: {text}\n\n".encode()


def usage(output: int, reasoning: int | None = None, cached: int | None = None) -> dict[str, Any]:
    return {
        "input_tokens": 11,
        "input_tokens_details": None if cached is None else {"cached_tokens": cached},
        "output_tokens": output,
        "output_tokens_details": None if reasoning is None else {"reasoning_tokens": reasoning},
    }


def completed(output: int, *items: dict[str, Any], **more: Any) -> bytes:
    response = {
        "object": "response",
        "status": "completed",
        "error": None,
        "output": list(items),
        "usage": usage(output, **more),
    }
    return event("completed", response=response)


def text_events() -> Events:
    opening = event("created", response={"status": "in_progress"})
    opening += event("output_item.added", item={"type": "message", "content": []})
    events: Events = [(5.0, opening)]
    events += [(100.0 + 10 * n, event("output_text.delta", delta="x")) for n in range(5)]
    return [*events, (140.0, event("output_text.done", text="xxxxx")), (141.0, completed(5))]


def ms(value: float | None) -> float | None:
    return None if value is None else round(value * 1000, 6)


@split_every_way
def test_text_is_timed_and_counted(split: str) -> None:
    request = request_of(streamed(text_events(), split))
    assert (request.status, request.finish_reason) == ("ok", "stop")
    assert (ms(request.ttft_s), ms(request.ttfo_s), ms(request.e2e_s)) == (100, 100, 140)
    assert (ms(request.tpot_s), ms(request.max_gap_s)) == (10, 10)
    assert (request.prompt_tokens, request.output_tokens) == (11, 5)
    assert request.output_tokens_source == "usage"
    assert request.cached_tokens is request.reasoning_tokens is None
    assert request.text_sha256 == hashlib.sha256(b"xxxxx").hexdigest()


@split_every_way
@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text", "reasoning"])
def test_reasoning_is_a_first_token_and_the_answer_a_first_output(split: str, kind: str) -> None:
    events: Events = [(50.0 + 10 * n, event(f"{kind}.delta", delta="hm")) for n in range(4)]
    events += [(200.0, event("output_text.delta", delta="42"))]
    events += [(201.0, completed(5, reasoning=4, cached=8))]
    request = request_of(streamed(events, split))
    assert (ms(request.ttft_s), ms(request.ttfo_s)) == (50, 200)
    assert (request.reasoning_tokens, request.cached_tokens) == (4, 8)
    assert request.text_sha256 == hashlib.sha256(b"42").hexdigest()
    if "summary" in kind:  # the four tokens of the reasoning itself were never streamed
        assert request.tpot_s is None
    else:
        assert ms(request.tpot_s) == 37.5


@split_every_way
def test_a_call_of_a_tool_is_content_and_its_arguments_are_output(split: str) -> None:
    call = {"type": "function_call", "name": "look_up", "arguments": ""}
    events: Events = [(80.0, event("output_item.added", item=call))]
    events += [
        (100.0, event("function_call_arguments.delta", delta='{"a":')),
        (110.0, event("function_call_arguments.delta", delta="1}")),
        (111.0, event("function_call_arguments.done", arguments='{"a":1}')),
        (112.0, completed(4, call)),
    ]
    request = request_of(streamed(events, split))
    assert (request.status, request.finish_reason) == ("ok", "tool_calls")
    assert (ms(request.ttft_s), ms(request.ttfo_s), ms(request.e2e_s)) == (80, 100, 110)
    assert request.text_sha256 == hashlib.sha256(b'look_up{"a":1}').hexdigest()


@split_every_way
@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (
            event("failed", response={"status": "failed", "error": {"message": "no memory"}}),
            "no memory",
        ),
        (event("failed", response={"status": "failed", "error": None}), "the response is failed"),
        (b'event: error\ndata: {"type": "error", "message": "no memory"}\n\n', "no memory"),
        (b'data: {"type": "error", "code": "overloaded"}\n\n', "overloaded"),
    ],
)
def test_a_failed_response_is_an_error(split: str, raw: bytes, says: str) -> None:
    request = request_of(streamed([*text_events()[:3], (120.0, raw)], split))
    assert (request.status, request.error, request.e2e_s) == ("error", says, None)
    assert ms(request.ttft_s) == 100


@split_every_way
def test_an_incomplete_response_ended_by_its_limit_and_a_missing_end_is_a_cut(split: str) -> None:
    response = {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "usage": usage(5),
    }
    events = [*text_events()[:-1], (141.0, event("incomplete", response=response))]
    request = request_of(streamed(events, split))
    assert (request.status, request.finish_reason, ms(request.tpot_s)) == ("ok", "length", 10)
    assert request_of(streamed(text_events()[:-1], split)).status == "cut"


@split_every_way
def test_a_response_in_one_piece_has_no_first_token(split: str) -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
    ]
    body = {"object": "response", "status": "completed", "output": output, "usage": usage(3)}
    raw = json.dumps(body).encode()
    request = request_of(streamed([(300.0, raw)], split, content_type="application/json"))
    assert (request.status, request.finish_reason) == ("ok", "stop")
    assert (ms(request.e2e_s), request.ttft_s, request.output_tokens) == (300, None, 3)
    assert request.text_sha256 == hashlib.sha256(b"Hi").hexdigest()


@pytest.mark.parametrize(
    ("given", "salted"),
    [
        ("Say hello.", "[k7] Say hello."),
        (
            [{"role": "user", "content": "Say hello."}],
            [{"role": "user", "content": "[k7] Say hello."}],
        ),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": "Hello?"}]}],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "[k7] "},
                        {"type": "input_text", "text": "Hello?"},
                    ],
                }
            ],
        ),
    ],
)
def test_an_input_line_asks_the_responses_endpoint(tmp_path: Path, given: Any, salted: Any) -> None:
    plan = closed_schedule(1, 1)
    config = load_config(
        tmp_path, "http://h/v1", plan, prompts=[{"input": given, "extra": {"seed": 7}}], salt="k7"
    )
    path, body = Prompts(config).outgoing(item(0))
    document = json.loads(body)
    assert path == "/responses"
    assert document == {
        "model": "fake",
        "input": salted,
        "max_output_tokens": 16,
        "stream": True,
        "seed": 7,
    }


def test_the_load_process_measures_the_responses_endpoint(tmp_path: Path) -> None:
    with FakeEngine(stream_script(text_events())) as fake:
        config = load_config(
            tmp_path, fake.url, closed_schedule(4, 2), prompts=[{"input": "Say hello."}]
        )
        run_load(config, lambda progress: None)
        assert {served.seen.path for served in fake.served} == {"/v1/responses"}
    for request in journal_of(config).requests:
        assert (request.status, request.output_tokens) == ("ok", 5)
        assert request.ttft_s == pytest.approx(0.1, abs=0.03)
