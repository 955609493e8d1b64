"""Every row of the peers' failures is a test, in three splits: whole, byte by byte, at random.

A scripted answer is read twice: as stamped reads without a clock, where times are exact, and by
the real client from a real connection, where every stamp must lie where the server wrote.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from teardown.load import wire
from teardown.load.answer import read_stream
from teardown.load.client import Client, Endpoint
from teardown.load.exchange import Exchange
from teardown.load.sse import SseParser
from teardown.load.tokenizer import HuggingFaceTokenizer
from teardown.records import Request
from tests.fakes.engine import CLOSE, RESET, STREAM_END, FakeEngine, Script, http_chunk
from tests.fakes.exchanges import SPLITS, ZERO_S, request_of, streamed
from tests.fakes.splits import ReadSize
from tests.load import test_cases_runs, test_cases_sums
from tests.load.cases import CASES, JSON_TYPE, Case, Stream

# The numbers of the table in section 2 of the facts page; it leaves some out.
ROWS = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 15, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27, 29, 30]
ROWS += [31, 32, 34, 36, 37, 38, 39, 41, 42, 43, 44, 46]
TIMES = ("ttft_s", "ttfo_s", "tpot_s", "e2e_s", "max_gap_s")
# On the wire the scripts run faster, but not so fast that writes pile up before a reader of single
# bytes: the kernel joins segments that wait, and the newest one's stamp is then that of all.
SPEED = 0.4
LATE_S = 0.001  # how far a kernel stamp may lie outside the write that it belongs to

on_every_stream = pytest.mark.parametrize(
    ("case", "stream"),
    [
        pytest.param(case, stream, id=f"row {case.number}, {case.right} ({stream.name})")
        for case in CASES
        for stream in case.streams
    ],
)
in_every_split = pytest.mark.parametrize("split", SPLITS)


class WordsWithBegin:
    """A tokenizer of words that puts a begin token before every text, unless told not to."""

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        ids = list(range(len(text.split())))
        encoding = type("Encoding", (), {})()
        encoding.ids = [0, *ids] if add_special_tokens else ids
        return encoding


def counter(stream: Stream) -> Callable[[str], int] | None:
    return HuggingFaceTokenizer(WordsWithBegin()).count if stream.words_are_tokens else None


def exchange_of(stream: Stream, split: str) -> Exchange:
    more: dict[str, Any] = {"content_type": stream.content_type}
    if stream.end is not None:
        more |= {"ending": "closed" if stream.end is CLOSE else "reset", "closed_s": None}
    return streamed(stream.events, split, **more)


def assert_expected(request: Request, stream: Stream, *, times: bool) -> None:
    for name, value in stream.expected.items():
        found = getattr(request, name)
        if name not in TIMES or value is None:
            assert found == value, f"{name}: {request.reasons.get(name)} {request.error}"
        elif times:
            assert found * 1000 == pytest.approx(value), name
    for name, words in stream.says.items():
        assert words in request.reasons[name]


def test_every_row_is_here_and_its_test_exists() -> None:
    assert [case.number for case in CASES] == ROWS
    for case in CASES:
        assert case.streams or case.run_test, case.number
        if case.run_test:
            assert case.run_test.startswith(f"test_row_{case.number}_")
            modules = (test_cases_runs, test_cases_sums)
            assert any(hasattr(module, case.run_test) for module in modules), case.number


@in_every_split
@on_every_stream
def test_the_record_says_what_is_right(case: Case, stream: Stream, split: str) -> None:
    request = request_of(exchange_of(stream, split), counter(stream))
    assert_expected(request, stream, times=True)
    if stream.gaps_ms is not None:
        gaps = [1000 * (late - early) for early, late in itertools.pairwise(request.chunk_s)]
        assert gaps == pytest.approx(stream.gaps_ms), case.right


@in_every_split
@on_every_stream
def test_the_client_reads_it_so_from_a_connection(
    case: Case, stream: Stream, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "READ_BYTES", ReadSize(split))
    with FakeEngine(script_of(stream)) as fake:
        client = Client(Endpoint(fake.url), headers={}, timeout_s=10.0)
        exchange = client.post("/chat/completions", b"{}", lambda sent_s: None)
        client.close()
        served = fake.served[0]
    request = request_of(exchange, counter(stream))
    assert_expected(request, stream, times=False)

    exact = request_of(exchange_of(stream, "whole"))
    writes = chunk_writes(stream, served.written_s, served.left_s)
    assert len(request.chunk_s) == len(exact.chunk_s) == len(writes), case.right
    stamps = zip(request.chunk_s, request.stamp_width_s, strict=True)
    for (at, width_s), (before_s, after_s) in zip(stamps, writes, strict=True):
        assert before_s - LATE_S < at + ZERO_S
        assert at + ZERO_S - width_s < after_s + LATE_S
        if split == "whole":  # a reader of single bytes is slow: segments pile up before it
            assert at + ZERO_S < after_s + LATE_S
    for name in ("ttft_s", "max_gap_s", "e2e_s"):
        assert (getattr(request, name) is None) == (getattr(exact, name) is None), name
    assert exchange.sent_s is not None
    if request.ttft_s is not None:
        assert request.ttft_s == pytest.approx(request.chunk_s[0] + ZERO_S - exchange.sent_s)


def chunk_writes(
    stream: Stream, written_s: list[float], left_s: list[float]
) -> list[tuple[float, float]]:
    """Between which times the write went out that completed each chunk (the head is write 0)."""
    parser, found = SseParser(0.0), []
    for number, (_, raw) in enumerate(stream.events, 1):
        chunks = read_stream(parser.feed(raw, float(number))).chunks
        found += [(written_s[number], left_s[number])] * len(chunks)
    if stream.content_type == JSON_TYPE:
        return [(written_s[1], left_s[1])]
    return found


def script_of(stream: Stream) -> Script:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {stream.content_type}\r\n"
    head += "Transfer-Encoding: chunked\r\n\r\n"
    script: Script = [(0.0, head.encode())]
    script += [(t_ms * SPEED, http_chunk(raw)) for t_ms, raw in stream.events]
    last_ms = script[-1][0]
    if stream.end is None:
        return [*script, (last_ms, STREAM_END)]
    assert stream.end in (CLOSE, RESET)
    return [*script, (last_ms + 5, stream.end)]
