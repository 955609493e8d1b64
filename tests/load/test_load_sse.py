import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teardown.load.sse import Event, SseParser
from tests.fakes.exchanges import SPLITS, pieces


def data_of(raw: bytes, split: str = "whole") -> list[str]:
    parser = SseParser(0.0)
    return [
        event.data
        for number, part in enumerate(pieces(raw, split))
        for event in parser.feed(part, float(number))
    ]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\ndata:  b\n\n", ["a", " b"]),
        (b"event: message\ndata: a\nid: 7\nretry: 10\n\n", ["a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b": ping\n\ndata: a\n\n:\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a\n\ndata: never ended\n", ["a"]),
        (b"nonsense\n\n\n\ndata: hello world \n\n", ["hello world "]),
        ("data: 中文 🙂\n\n".encode(), ["中文 🙂"]),
        (b"data: \xff\n\n", ["�"]),
    ],
)
def test_events_follow_the_standard_however_reads_are_split(
    raw: bytes, expected: list[str], split: str
) -> None:
    assert data_of(raw, split) == expected


def test_the_kind_of_an_event_is_kept_and_defaults_to_message() -> None:
    events = SseParser(0.0).feed(b"event: error\ndata: a\n\ndata: b\n\n", 1.0)
    assert [event.kind for event in events] == ["error", "message"]


def test_a_lone_event_at_the_end_of_its_read_has_no_bracket() -> None:
    parser = SseParser(1.0)
    (event,) = parser.feed(b"data: a\n\n", 3.0)
    assert event == Event("a", "message", 1.0, 3.0, True)
    assert event.width_s == 0


def test_events_that_share_a_read_share_its_bracket() -> None:
    parser = SseParser(1.0)
    parser.feed(b"", 2.0)
    events = parser.feed(b"data: a\n\ndata: b\n\n", 5.0)
    assert [(e.previous_s, e.stamp_s, e.width_s) for e in events] == [(2.0, 5.0, 3.0)] * 2


def test_an_event_with_more_bytes_behind_it_or_without_a_kernel_stamp_keeps_its_bracket() -> None:
    (behind,) = SseParser(1.0).feed(b"data: a\n\ndata: b", 3.0)
    (unstamped,) = SseParser(1.0).feed(b"data: a\n\n", 3.0, is_own_stamp=False)
    assert behind.width_s == unstamped.width_s == 2.0


def test_bytes_that_were_left_behind_may_have_come_as_early_as_those_before_them() -> None:
    parser = SseParser(1.0)
    (first,) = parser.feed(b"data: a\n\n", 5.0, is_own_stamp=False, is_drained=False)
    (second,) = parser.feed(b"data: b\n\n", 5.0, is_own_stamp=False)
    (third,) = parser.feed(b"data: c\n\n", 6.0, is_own_stamp=False)
    assert [event.width_s for event in (first, second, third)] == [4.0, 4.0, 1.0]


LINES = st.lists(
    st.sampled_from(
        [
            b"data: a",
            b"data:b",
            b"data",
            "data: 中🙂".encode(),
            b"event: x",
            b": ping",
            b"",
            b"",
            b"data: {}",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=20,
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return b"".join(line + draw(ENDS) for line in draw(LINES))
    return draw(st.binary(max_size=60)) + draw(st.sampled_from([b"", b"\n\n", b"\r\r"]))


def completions(raw: bytes, cuts: list[int]) -> list[tuple[str, str, int]]:
    """Each event with the number of the byte that completes it, fed as `cuts` says."""
    parser, found = SseParser(0.0), []
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    for start, end in itertools.pairwise(bounds):
        found += [
            (event.data, event.kind, end) for event in parser.feed(raw[start:end], float(end))
        ]
    return found


@settings(deadline=None)
@given(streams(), st.lists(st.integers(0, 200), max_size=8))
def test_any_split_gives_the_same_events_each_in_the_read_that_completes_it(
    raw: bytes, cuts: list[int]
) -> None:
    by_byte = completions(raw, list(range(len(raw) + 1)))
    split = completions(raw, cuts)
    bounds = sorted({0, len(raw), *(min(cut, len(raw)) for cut in cuts)})
    expected = [
        (data, kind, next(bound for bound in bounds if bound >= byte))
        for data, kind, byte in by_byte
    ]
    # a carriage return ends its line at once, so the byte that completes an event is one byte
    assert split == expected
