from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teardown.load.exchange import BodyRead, Ending, Exchange
from teardown.load.record import percentile
from teardown.records import FAILED, Request
from tests.fakes.engine import chat_events, sse
from tests.fakes.exchanges import SENT_S, request_of, streamed

TIMES = ("ttft_s", "ttfo_s", "tpot_s", "e2e_s", "stream_close_s", "max_gap_s")
COUNTS = ("output_tokens", "reasoning_tokens", "cached_tokens", "first_chunk_tokens")


def assert_every_gap_is_explained(request: Request) -> None:
    for name in (*TIMES, *COUNTS, "connect_s", "receive_lag_s"):
        if getattr(request, name) is None and not (name == "connect_s" and not request.sent_s):
            assert request.reasons.get(name), name


@pytest.mark.parametrize(
    ("code", "status"), [(429, "refused"), (503, "refused"), (400, "error"), (500, "error")]
)
def test_case_31_a_reply_that_is_no_200_is_refused_or_an_error(code: int, status: str) -> None:
    body = b'{"error": {"message": "too many requests"}}'
    exchange = streamed([(1.0, body)], http_status=code, content_type="application/json")
    request = request_of(exchange)
    assert (request.status, request.http_status) == (status, code)
    assert request.error == f"HTTP {code}: too many requests"
    assert request.is_failed
    assert request.e2e_s is None


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("timeout", "timeout"),
        ("connection_refused", "refused"),
        ("unreachable", "error"),
        ("aborted", "aborted"),
        ("failed", "error"),
        ("closed", "error"),
        ("reset", "error"),
        ("not_http", "error"),
    ],
)
def test_every_ending_without_an_answer_has_its_class(ending: Ending, status: str) -> None:
    request = request_of(Exchange(sent_s=SENT_S, ending=ending))
    assert request.status == status
    assert request.error
    assert_every_gap_is_explained(request)


def test_a_time_out_in_the_middle_keeps_what_was_measured() -> None:
    exchange = streamed(chat_events(["a", "b"], first_ms=30, finish_reason=None, done=False))
    exchange.ending, exchange.closed_s = "timeout", None
    request = request_of(exchange)
    assert request.status == "timeout"
    assert request.ttft_s == pytest.approx(0.03)
    assert request.e2e_s is request.tpot_s is request.stream_close_s is None


def test_an_error_says_its_beginning_alone() -> None:
    request = request_of(streamed([(1.0, sse({"error": {"message": "x" * 5000}}))]))
    assert request.error is not None
    assert len(request.error) == 200


def test_times_count_from_the_send_and_places_from_the_start_of_the_run() -> None:
    request = request_of(streamed(chat_events(["a", "b"], first_ms=30)))
    assert request.sent_s == pytest.approx(2.0)
    assert request.client_wait_s == pytest.approx(0.5)
    assert request.chunk_s == pytest.approx([2.03, 2.04])
    assert request.e2e_from_intended_s == pytest.approx(0.54)
    assert_every_gap_is_explained(request)


def test_percentiles_are_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.99) == 99
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3
    assert percentile([], 0.5) is None


KEYS = [
    *("choices", "delta", "message", "content", "reasoning", "tool_calls", "function", "usage"),
    *("timings", "error", "completion_tokens", "completion_tokens_details", "finish_reason"),
    "logprobs",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "reasoning",
                    "tool_calls",
                    "function",
                    "usage",
                    "timings",
                    "error",
                    "completion_tokens",
                    "completion_tokens_details",
                    "finish_reason",
                    "logprobs",
                    "message",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Well-formed streams with bytes damaged, strange JSON, or noise."""
    good = b"".join(data for _, data in chat_events(["a", "b", "c"]))
    kind = draw(st.sampled_from(["damaged", "json", "noise", "shortened"]))
    if kind == "damaged":
        position = draw(st.integers(0, len(good) - 1))
        return good[:position] + draw(st.binary(min_size=1, max_size=3)) + good[position + 1 :]
    if kind == "json":
        return b"".join(sse(document) for document in draw(st.lists(JSON, max_size=4)))
    return draw(st.binary(max_size=80)) if kind == "noise" else good[: draw(st.integers(0, 900))]


@settings(deadline=None)
@given(
    bodies(),
    st.sampled_from(get_args(Ending)),
    st.sampled_from(["text/event-stream", "application/json", "", "text/html"]),
    st.sampled_from([200, 200, 200, 204, 301, 404, 429, 500]),
)
def test_whatever_comes_back_the_request_is_classed(
    body: bytes, ending: Ending, content_type: str, code: int
) -> None:
    half = len(body) // 2
    reads = [BodyRead(SENT_S + 1, True, body[:half]), BodyRead(SENT_S + 2, True, body[half:])]
    request = request_of(
        Exchange(
            sent_s=SENT_S,
            http_status=code,
            content_type=content_type,
            reads=reads,
            num_reads=2,
            closed_s=SENT_S + 2 if ending == "complete" else None,
            ending=ending,
        )
    )
    assert request.status == "ok" or request.status in FAILED
    assert (request.error is None) == (request.status == "ok")
    assert request.e2e_s is None or request.status == "ok"
    assert_every_gap_is_explained(request)
