"""The cases of the peers' bug trackers, as data: each row of the facts page on load testing.

A row whose subject is one answer has scripts (`streams`): the same bytes go through the parser and
through a real connection (`test_cases.py`). A row about a run names the test that makes the run
(`test_cases_runs.py`) or sums it up (`test_cases_sums.py`). Times in milliseconds from the send.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.scripts import (
    CLOSE,
    RESET,
    Act,
    chat_events,
    chunk_document,
    sse,
    usage_document,
)

Events = list[tuple[float, bytes]]
JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One scripted answer and what its record must say.

    expected: value by field of `Request`, times in milliseconds, None for a value that must be
    absent. says: field -> words that its reason (or the error) must hold. gaps_ms: every gap
    between chunks. words_are_tokens: count by a tokenizer that puts a token before every text
    unless told not to.
    """

    name: str
    events: Events
    expected: dict[str, Any]
    says: dict[str, str] = field(default_factory=dict)
    gaps_ms: list[float] | None = None
    end: Act | None = None
    content_type: str = STREAM_TYPE
    words_are_tokens: bool = False


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: where it was seen, what others do, and what is right, as a sentence.

    run_test: the test that makes the run, or sums it up. limit: what of the row cannot be
    shown here, and what is shown in its place.
    """

    number: int
    source: str
    wrong: str
    right: str
    streams: tuple[Stream, ...] = ()
    run_test: str = ""
    limit: str = ""


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return sse(chunk_document(fields, finish))


def ending(usage: dict[str, Any] | None, finish: str = "length") -> bytes:
    return delta(finish) + (sse(chunk_document(usage=usage)) if usage else b"") + sse("[DONE]")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def every(first_ms: float, gap_ms: float, count: int, **fields: Any) -> Events:
    """`count` deltas, `gap_ms` apart."""
    return [(first_ms + gap_ms * n, delta(**fields)) for n in range(count)]


def _after_role(usage_tokens: int, count: int = 5) -> Events:
    events = [(20.0, delta(role="assistant", content="")), (100.0, delta(content=""))]
    events += every(220, 10, count, content="x")
    return [*events, (events[-1][0], ending(usage_document(usage_tokens)))]


def _reasoning(key: str) -> Events:
    other = {"reasoning": "reasoning_content", "reasoning_content": "reasoning"}[key]
    events = every(100, 100, 5, **{key: "hm", other: None, "content": None})
    usage = usage_document(6, reasoning=5)
    return [*events, (600.0, delta(content="42")), (600.0, ending(usage))]


def _four_tokens(*, per_chunk: bool, finish: str = "length") -> Events:
    events = []
    for number in range(10):
        more = {"usage": usage_document(4 * (number + 1))} if per_chunk else {}
        events.append((100.0 + 40 * number, sse(chunk_document({"content": "a b c d "}, **more))))
    return [*events, (460.0, ending(usage_document(40), finish))]


def _usage_at(place: str) -> Events:
    usage = usage_document(3, prompt=7, cached=5)
    with_last = {"usage": usage} if place == "with the last token" else {}
    with_finish = {"usage": usage} if place == "with the finish reason" else {}
    own = sse(chunk_document(usage=usage))
    tail = sse(chunk_document({}, "length", **with_finish))
    tail += (own if place == "alone" else b"") + sse("[DONE]")
    first = (own if place == "before all" else b"") + delta(content="a")
    last = sse(chunk_document({"content": "c"}, **with_last))
    return [(10.0, first), (20.0, delta(content="b")), (30.0, last), (31.0, tail)]


def _failing(raw: bytes) -> Events:
    events = every(10, 10, 5, content="a ")
    usage = sse(chunk_document(usage=usage_document(100)))  # the full length, credited anyway
    return [*events, (51.0, raw + usage + sse("[DONE]"))]


def _cut_text(text: str, cut_behind: bytes) -> Events:
    """An event whose bytes come in two writes, cut behind `cut_behind`."""
    raw = delta(content=text)
    cut = raw.index(cut_behind) + len(cut_behind)
    tail = delta(content="!") + ending(usage_document(2))
    return [(10.0, raw[:cut]), (20.0, raw[cut:]), (30.0, tail)]


def _in_form(form: str) -> Events:
    changes = {
        "LF": (b"", b""),
        "CRLF": (b"\n", b"\r\n"),
        "CR": (b"\n", b"\r"),
        "no space": (b"data: ", b"data:"),
        "event and data": (b"data: ", b"event: message\ndata: "),
        "two data lines": (b'"object":', b'\ndata: "object":'),
    }
    old, new = changes[form]
    events = chat_events(["Hello", " wor", "ld"])
    return [(t_ms, raw.replace(old, new) if old else raw) for t_ms, raw in events]


def _pinged() -> Events:
    events = [(50.0, b": ping\n\n"), (100.0, delta(content="a")), (105.0, b": ping\n\n")]
    return [*events, (110.0, delta(content="b")), (111.0, ending(usage_document(2)))]


def _two_bursts() -> Events:
    events = every(100, 20, 10, content="x") + every(1280, 20, 10, content="x")
    return [*events, (events[-1][0], ending(usage_document(20)))]


def _json_reply() -> bytes:
    message = {"role": "assistant", "content": "Hi"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return json.dumps({"choices": choices, "usage": usage_document(3)}).encode()


def _held_back() -> bytes:
    return b"".join(raw for _, raw in chat_events(["a", "b", "c"]))


ERRORS = {
    "an object": sse({"error": {"message": "out of memory", "code": 500}}),
    "a text": sse({"error": "out of memory"}),
    "an error event": b'event: error\ndata: {"message": "out of memory"}\n\n',
    "vLLM's old form": sse({"object": "error", "message": "out of memory"}),
}
NO_TIMES = {"ttft_s": None, "ttfo_s": None, "tpot_s": None}
WORD_EVENTS: Events = [(100.0 + 20 * n, delta(content=f"word{n} ")) for n in range(10)]
HELLO = {"status": "ok", "text_sha256": sha("Hello world"), "ttft_s": 20.0, "e2e_s": 40.0}

CASES = [
    Case(
        number=1,
        source="vllm#39963",
        wrong="a small read buffer and one shared session: 200 KB prompts slow every answer",
        right="64 connections with prompts of 200 KB add less than 5 ms to the first token",
        run_test="test_row_1_large_prompts_do_not_delay_the_first_token",
    ),
    Case(
        number=2,
        source="llm-d-benchmark#261, inference-perf#188",
        wrong="late coroutines are reported as latency of the server",
        right="a client that reads late says so, is invalid, and its stamps hold the truth",
        run_test="test_row_2_a_client_that_reads_late_is_flagged_and_its_stamps_hold_the_truth",
        limit="500 streams of 50 events a second need a server in C; here the load process is held "
        "up by force, which is the same lateness with a known size",
    ),
    Case(
        number=3,
        source="gpustack#2324, vibesys#252",
        wrong="a pool of 100 connections caps the concurrency, time to first token jumps",
        right="200 requests are in flight when 200 are asked",
        run_test="test_row_3_two_hundred_are_in_flight_when_two_hundred_are_asked",
    ),
    Case(
        number=4,
        source="vllm#54101",
        wrong="the wait for a free slot is in no latency",
        right="service latency and latency from intended are both kept, and differ by the wait",
        run_test="test_row_4_waiting_for_a_slot_is_in_the_latency_from_intended",
        limit="one fifth of the row's times, same proportions",
    ),
    Case(
        number=5,
        source="AIPerf, timing documentation",
        wrong="a slip of the client re-anchors the schedule and is forgiven",
        right="every request keeps its intended time, and a slip is charged",
        run_test="test_row_5_a_slip_of_the_client_is_charged_and_never_re_anchored",
    ),
    Case(
        number=6,
        source="inference-perf#245",
        wrong="a stage is called done with thousands of requests unsent",
        right="a rate that was not reached makes the run invalid",
        run_test="test_row_6_a_rate_that_is_not_reached_makes_the_run_invalid",
    ),
    Case(
        number=7,
        source="vllm#3759, #15106, #46652",
        wrong="a role chunk or an empty one is taken for the first token",
        right="the first token is the first delta that is not empty",
        streams=(
            Stream(
                name="role, empty, content",
                events=_after_role(5),
                expected={"status": "ok", "ttft_s": 220.0, "e2e_s": 260.0, "tpot_s": 10.0},
                gaps_ms=[10.0] * 4,
            ),
        ),
    ),
    Case(
        number=9,
        source="guidellm#737, sglang#23949, genai-bench#81, inference-perf#559",
        wrong="reasoning is ignored: the first token is late, 0, or a crash",
        right="the first token is the first reasoning, the first output the first answer",
        streams=tuple(
            Stream(
                name=key,
                events=_reasoning(key),
                expected={
                    "status": "ok",
                    "ttft_s": 100.0,
                    "ttfo_s": 600.0,
                    "tpot_s": 100.0,
                    "reasoning_tokens": 5,
                    "text_sha256": sha("42"),
                },
            )
            for key in ("reasoning", "reasoning_content")
        ),
    ),
    Case(
        number=10,
        source="tokenomics#16",
        wrong="output tokens are completion plus reasoning, counted twice",
        right="reasoning is inside the completion tokens",
        streams=(
            Stream(
                name="30 tokens, 20 of them reasoning",
                events=[
                    *every(100, 10, 10, content="x"),
                    (190.0, ending(usage_document(30, reasoning=20))),
                ],
                expected={"output_tokens": 30, "reasoning_tokens": 20, "tpot_s": 10.0},
            ),
        ),
    ),
    Case(
        number=11,
        source="sglang#12064, vllm#27485, #28183, #42661",
        wrong="the gap between chunks is called a token's time; a peak below the average",
        right="a gap is a gap, and the pace of the tokens is counted from tokens",
        streams=(
            Stream(
                name="4 tokens a chunk, 40 ms apart",
                events=_four_tokens(per_chunk=True),
                expected={"max_gap_s": 40.0, "tpot_s": 10.0, "output_tokens": 40},
                gaps_ms=[40.0] * 9,
            ),
            Stream(
                name="nobody says how many tokens a chunk has",
                events=_four_tokens(per_chunk=False),
                expected={"max_gap_s": 40.0, "tpot_s": None, "first_chunk_tokens": None},
                says={"tpot_s": "chunks and tokens differ"},
                gaps_ms=[40.0] * 9,
            ),
        ),
        run_test="test_row_11_the_peak_is_counted_from_tokens",
    ),
    Case(
        number=12,
        source="aiperf#1279",
        wrong="the tokens of the first chunk count as decoded after it",
        right="the tokens of the first chunk are not decoded after it",
        streams=tuple(
            Stream(
                name=f"finish reason {finish}",
                events=_four_tokens(per_chunk=True, finish=finish),
                expected={"first_chunk_tokens": 4, "tpot_s": 10.0},  # 360/36, not 360/39
            )
            for finish in ("length", "stop")
        ),
    ),
    Case(
        number=13,
        source="inference-perf#564, #565, #566",
        wrong="a begin token is added to every chunk that is counted: twice the tokens",
        right="a tokenizer counts the joined text, without tokens that are not in it",
        streams=(
            Stream(
                name="10 chunks of a word",
                events=[*WORD_EVENTS, (280.0, ending(None))],
                expected={
                    "output_tokens": 10,
                    "output_tokens_source": "tokenizer",
                    "first_chunk_tokens": 1,
                    "tpot_s": 20.0,
                },
                words_are_tokens=True,
            ),
        ),
    ),
    Case(
        number=15,
        source="production-stack#873, evalscope#1572, vLLM",
        wrong="usage is looked for in one kind of chunk only",
        right="usage is read from any chunk",
        streams=tuple(
            Stream(
                name=place,
                events=_usage_at(place),
                expected={
                    "prompt_tokens": 7,
                    "output_tokens": 3,
                    "cached_tokens": 5,
                    "output_tokens_source": "usage",
                    "tpot_s": 10.0,
                },
            )
            for place in ("alone", "with the finish reason", "with the last token", "before all")
        ),
    ),
    Case(
        number=17,
        source="vllm-swift#19, vLLM",
        wrong="without usage an answer has 0 tokens, or 1",
        right="without usage a tokenizer counts and is named, or the count is unknown",
        streams=(
            Stream(
                name="no tokenizer",
                events=[*WORD_EVENTS, (280.0, ending(None))],
                expected={
                    "status": "ok",
                    "output_tokens": None,
                    "output_tokens_source": None,
                    "tpot_s": None,
                },
                says={"output_tokens": "no usage", "tpot_s": "no usage"},
            ),
            Stream(
                name="a tokenizer",
                events=[*WORD_EVENTS, (280.0, ending(None))],
                expected={"output_tokens": 10, "output_tokens_source": "tokenizer"},
                words_are_tokens=True,
            ),
        ),
    ),
    Case(
        number=18,
        source="vllm#57519, sglang#38868, guidellm#743, pegainfer#142",
        wrong="an error inside a 200 is a success with the full length",
        right="an error inside a 200 is a failure without latency, its chunks kept apart",
        streams=tuple(
            Stream(
                name=kind,
                events=_failing(raw),
                expected={
                    "status": "error",
                    "http_status": 200,
                    "error": "out of memory",
                    "ttft_s": 10.0,
                    "e2e_s": None,
                    "tpot_s": None,
                },
                gaps_ms=[10.0] * 4,
            )
            for kind, raw in ERRORS.items()
        ),
    ),
    Case(
        number=19,
        source="inference-perf#530, #531, #620",
        wrong="a stream that is cut counts, with the tokens that it had",
        right="a stream without finish reason and [DONE] is cut, and has no latency",
        streams=tuple(
            Stream(
                name=name,
                events=every(10, 10, 5, content="a "),
                expected={"status": "cut", "e2e_s": None, "tpot_s": None, "ttft_s": 10.0},
                end=end,
            )
            for name, end in (
                ("the body ends", None),
                ("the connection closes", CLOSE),
                ("the connection is reset", RESET),
            )
        ),
    ),
    Case(
        number=20,
        source="sglang#40555, vllm#5895",
        wrong="a 200 without a token is a success, with a first token at 0",
        right="a 200 without content is empty, and has no times",
        streams=(
            Stream(
                name="[DONE] alone",
                events=[(10.0, sse("[DONE]"))],
                expected={"status": "empty", "e2e_s": None, **NO_TIMES},
                says={"ttft_s": "no content arrived"},
            ),
        ),
    ),
    Case(
        number=21,
        source="vllm#38717, #38732, #50868",
        wrong="a character whose bytes come in two reads is damaged",
        right="a character may come in two reads",
        streams=(
            Stream(
                name="cut behind E4",
                events=_cut_text("中文 🙂", b"\xe4"),
                expected={"status": "ok", "text_sha256": sha("中文 🙂!"), "ttft_s": 20.0},
            ),
        ),
    ),
    Case(
        number=22,
        source="vLLM's handler (02cfb53), continue#13144, ark#2519",
        wrong="a ping makes every later event stick",
        right="a ping is no token and no time",
        streams=(
            Stream(
                name="a ping before the first token and between two",
                events=_pinged(),
                expected={"status": "ok", "ttft_s": 100.0, "max_gap_s": 10.0, "e2e_s": 110.0},
                gaps_ms=[10.0],
            ),
        ),
    ),
    Case(
        number=23,
        source="vLLM's handler",
        wrong="a space where two reads meet is eaten",
        right="a space where two reads meet is kept",
        streams=(
            Stream(
                name="cut before the space",
                events=_cut_text("hello world", b"hello"),
                expected={"status": "ok", "text_sha256": sha("hello world!")},
            ),
            Stream(
                name="cut behind the space",
                events=_cut_text("hello world", b"hello "),
                expected={"status": "ok", "text_sha256": sha("hello world!")},
            ),
        ),
    ),
    Case(
        number=24,
        source="vLLM's handler, inference-perf",
        wrong="line ends other than LF, or a missing space, lose every token",
        right="line ends and field forms of the standard do not matter",
        streams=tuple(
            Stream(name=form, events=_in_form(form), expected=HELLO)
            for form in ("LF", "CRLF", "CR", "no space", "event and data", "two data lines")
        ),
    ),
    Case(
        number=26,
        source="vllm#54227, #52884, #53920, pegainfer#697, LMBenchmark#35",
        wrong="a repeated run hits the prefix cache, and is faster for it",
        right="a fresh salt misses the cache again; without one the run is called warm",
        run_test="test_row_26_a_repeat_misses_the_cache_or_is_called_warm",
        limit="a server that does not report cached tokens can only be salted: the check then says "
        "that it cannot judge",
    ),
    Case(
        number=27,
        source="sglang#39651, #40014, #33663, #3050",
        wrong="the cache's state is not recorded; a flush races with requests, inside the window",
        right="regime and salt are in the record, and nothing is flushed in the timed window",
        run_test="test_row_27_the_record_says_the_caches_state_and_nothing_is_flushed",
        limit="the kit flushes no engine: cold is made by a fresh salt, so that no flush can race "
        "with a request; the test shows that none is sent",
    ),
    Case(
        number=29,
        source="guidellm#93, inference-perf#615, sglang#30918",
        wrong="ramp and drain are in the throughput",
        right="the plateau's value stands beside the whole run's",
        run_test="test_row_29_the_drain_is_not_in_the_plateau",
    ),
    Case(
        number=30,
        source="guidellm#529, #514",
        wrong="requests that a time limit cut drop out, throughput is low",
        right="tokens count in the window in which they arrived, finished or not",
        run_test="test_row_30_tokens_of_unfinished_requests_count_where_they_arrived",
    ),
    Case(
        number=31,
        source="InferenceX#357, gpustack#1677, fw-ai/benchmark#136, flameox#252",
        wrong="a server that refuses looks faster; retries are hidden",
        right="refusals break the promise, stand above every percentile, and are not retried",
        run_test="test_row_31_refusals_break_the_promise_and_are_never_retried",
    ),
    Case(
        number=32,
        source="guidellm#243, #1163, evalscope",
        wrong="the 99th percentile of 71 samples is their maximum",
        right="a percentile has an interval, or too few samples",
        run_test="test_row_32_a_percentile_has_an_interval_or_too_few_samples",
    ),
    Case(
        number=34,
        source="guidellm",
        wrong="tokens are spread evenly between the first and the last",
        right="every chunk has its own stamp",
        streams=(
            Stream(
                name="two bursts one second apart",
                events=_two_bursts(),
                expected={"status": "ok", "max_gap_s": 1000.0, "e2e_s": 1460.0},
                gaps_ms=[20.0] * 9 + [1000.0] + [20.0] * 9,
            ),
        ),
        run_test="test_row_34_no_token_is_seen_where_none_arrived",
    ),
    Case(
        number=36,
        source="inference-perf#497, guidellm#979, tt-vllm#344",
        wrong="ignore_eos leaves other stop tokens, and unequal work is compared",
        right="answers of unequal length are not compared, and min_tokens reaches the server",
        run_test="test_row_36_answers_of_unequal_length_are_not_compared",
    ),
    Case(
        number=37,
        source="vllm-omni#5548, #7130",
        wrong="slow requests drop out silently, or hang the run",
        right="a time-out is a class, frees its slot, and stands above every percentile",
        run_test="test_row_37_a_time_out_is_a_class_and_frees_its_slot",
    ),
    Case(
        number=38,
        source="sglang#6177, #6178, GuideLLM, vLLM",
        wrong="a step of the wall clock changes latencies",
        right="a step of the wall clock changes no latency, and is told",
        run_test="test_row_38_a_step_of_the_wall_clock_changes_no_latency",
    ),
    Case(
        number=39,
        source="evalscope#1499, heron#4, fw-ai/benchmark#3",
        wrong="the latency of a reply in one piece is called a first token",
        right="a reply in one piece has no first token",
        streams=(
            Stream(
                name="JSON",
                events=[(500.0, _json_reply())],
                expected={"status": "ok", "e2e_s": 500.0, "output_tokens": 3, **NO_TIMES},
                says={"ttft_s": "not streamed"},
                content_type=JSON_TYPE,
            ),
        ),
    ),
    Case(
        number=41,
        source="inference-perf#50, endpoints#386, #411, srt-slurm#260",
        wrong="a connection a request: ports run out",
        right="connections are as many as requests in flight, and are used again",
        run_test="test_row_41_connections_are_reused_over_thousands_of_requests",
        limit="5,000 requests where replies come whole; 500 where they are split",
    ),
    Case(
        number=42,
        source="kekzl/imp#754",
        wrong="a buffer on the way makes the first token the last",
        right="an answer that comes all at once is not streamed, and such a run is invalid",
        streams=(
            Stream(
                name="all chunks at 1.7 s",
                events=[(1700.0, _held_back())],
                expected={"status": "ok", "e2e_s": 1700.0, **NO_TIMES},
                says={"ttft_s": "not streamed"},
            ),
        ),
        run_test="test_row_42_a_run_that_is_not_streamed_is_invalid",
    ),
    Case(
        number=43,
        source="inference-perf#320, AIPerf P1.14",
        wrong="more users than the asked concurrency go above it",
        right="concurrency is never above what was asked",
        run_test="test_row_43_concurrency_is_never_above_what_was_asked",
    ),
    Case(
        number=44,
        source="aiperf#1424",
        wrong="a slow client's first token is called prefill",
        right="prefill is the server's own figure, and a late read is not in the first token",
        run_test="test_row_44_a_late_read_is_not_prefill",
    ),
    Case(
        number=46,
        source="guidellm#744",
        wrong="the report is blank where its assets cannot be fetched",
        right="the report asks nothing of the network",
        run_test="test_row_46_the_report_asks_nothing_of_the_network",
    ),
]
