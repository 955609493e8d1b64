"""Whatever a server sends, and in whatever pieces, a request ends counted and classed."""

import dataclasses
import itertools
import json
import random
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teardown.load.client import Client, Endpoint
from teardown.load.run import run_load
from teardown.load.wire import Take
from teardown.records import FAILED, Request
from tests.fakes.engine import (
    CLOSE,
    STREAM_END,
    STREAM_HEAD,
    FakeEngine,
    Script,
    Seen,
    chat_events,
    http_chunk,
)
from tests.fakes.exchanges import request_of
from tests.fakes.loads import closed_schedule, journal_of, load_config

STAMPED = ("ttft_s", "ttfo_s", "tpot_s", "e2e_s", "stream_close_s", "max_gap_s", "sent_s")
STAMPED += ("chunk_s", "stamp_width_s", "receive_lag_s", "connect_s")
GOOD_BODY = b"".join(data for _, data in chat_events(["Hel", "lo", " 中"]))
OUR_FAULT = "a fault of the load process"


class ScriptedWire:
    """A connection that gives the pieces of one reply, all at one moment, and then closes."""

    connect_s = 0.0

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = iter(parts)

    def send(self, data: bytes) -> None:
        """Nobody reads it."""

    def read_until(self, take: Take) -> None:
        at_s = 4e9  # later than every send
        while not take(next(self._parts, b""), at_s, at_s, True):
            pass

    def is_usable(self) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to close."""


class ScriptedEndpoint:
    """Opens a connection with the next reply."""

    parts: list[bytes]

    def head(self, path: str) -> str:
        return f"POST {path} HTTP/1.1\r\n"

    def open(self, clock: Any) -> ScriptedWire:
        return ScriptedWire(self.parts)


ENDPOINT = ScriptedEndpoint()


def record_of(parts: list[bytes]) -> Request:
    client = Client(ENDPOINT, headers={}, timeout_s=5.0)  # type: ignore[arg-type]
    ENDPOINT.parts = [part for part in parts if part]
    try:
        exchange = client.post("/chat/completions", b"{}", lambda sent_s: None)
        assert client.num_in_flight == 0
        return request_of(exchange)
    finally:
        client.close()


def apart_from_stamps(request: Request) -> dict[str, Any]:
    fields = dataclasses.asdict(request)
    for name in STAMPED:
        value = fields.pop(name)
        fields[f"has {name}"] = len(value) if isinstance(value, list) else value is not None
    return fields


def assert_classed(request: Request) -> None:
    assert request.status == "ok" or request.status in FAILED
    assert (request.error is None) == (request.status == "ok")
    assert OUR_FAULT not in (request.error or "")
    for name in ("ttft_s", "tpot_s", "e2e_s", "output_tokens"):
        assert getattr(request, name) is not None or request.reasons[name]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
NAMES = st.sampled_from(
    [
        *("choices", "delta", "content", "reasoning", "tool_calls", "function", "usage", "error"),
        *("type", "object", "response", "status", "output", "item", "incomplete_details", "name"),
        *("completion_tokens", "output_tokens", "finish_reason", "logprobs", "timings", "text"),
    ]
)
KINDS = st.sampled_from(
    [
        *("response.output_text.delta", "response.completed", "response.failed", "response"),
        *("response.incomplete", "response.output_item.added", "error", "completed", "failed"),
    ]
)
DOCUMENTS = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS | KINDS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A good stream, one with damage, strange JSON in good events, or noise."""
    kind = draw(st.sampled_from(["good", "damaged", "strange", "noise"]))
    if kind == "strange":
        events = draw(st.lists(st.tuples(KINDS, DOCUMENTS), max_size=3))
        return b"".join(
            f"event: {name}\ndata: {json.dumps(document)}\n\n".encode() for name, document in events
        )
    if kind == "noise":
        return draw(st.binary(max_size=60))
    position = draw(st.integers(0, len(GOOD_BODY) - 1)) if kind == "damaged" else len(GOOD_BODY)
    damage = draw(st.binary(min_size=1, max_size=3)) if kind == "damaged" else b""
    return GOOD_BODY[:position] + damage + GOOD_BODY[position + 1 :]


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """Head, framing and body, each as it should be or not."""
    body = draw(bodies())
    status = draw(
        st.sampled_from(
            [b"200 OK"] * 4 + [b"204 No Content", b"429 Busy", b"500 x", b"101 x", b"2000 x", b""]
        )
    )
    head = b"HTTP/1.1 " + status + b"\r\n"
    kind = draw(st.sampled_from(["text/event-stream", "application/json", "text/html", ""]))
    head += f"Content-Type: {kind}\r\n".encode() if kind else b""
    head += draw(
        st.sampled_from(
            [b""] * 3
            + [
                b"Connection: close\r\n",
                b"Upgrade: h2c\r\nConnection: upgrade\r\n",
                b"no colon\r\n",
            ]
            + [b"X-\xff: \x00\r\n", b" folded\r\n", b"Content-Length: 3\r\n", b"Trailer: a\r\n"]
        )
    )
    framing = draw(st.sampled_from(["chunks", "chunks", "length", "wrong length", "close"]))
    if framing == "chunks":
        cut = draw(st.integers(0, len(body)))
        parts = [part for part in (body[:cut], body[cut:]) if part]
        head += b"Transfer-Encoding: chunked\r\n"
        body = b"".join(http_chunk(part) for part in parts) + STREAM_END
    elif framing == "length":
        head += f"Content-Length: {len(body)}\r\n".encode()
    elif framing == "wrong length":
        value = draw(st.sampled_from(["-1", "abc", "5", "99999999999999999999", "0x10"]))
        head += f"Content-Length: {value}\r\n".encode()
    raw = head + b"\r\n" + body
    if draw(st.booleans()):
        return raw + draw(st.sampled_from([b"", b"", b"\r\n", b"junk", raw]))
    position = draw(st.integers(0, len(raw)))
    return raw[:position] + draw(st.binary(max_size=4)) + raw[position + draw(st.integers(0, 3)) :]


@settings(deadline=None, max_examples=300)
@given(replies(), st.lists(st.integers(0, 1500), max_size=6))
def test_any_split_of_the_reads_gives_the_same_record(raw: bytes, cuts: list[int]) -> None:
    whole = record_of([raw])
    assert_classed(whole)
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    parts = [raw[start:end] for start, end in itertools.pairwise(bounds)]
    expected = apart_from_stamps(whole)
    assert apart_from_stamps(record_of(parts)) == expected
    assert apart_from_stamps(record_of([bytes([byte]) for byte in raw])) == expected


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(replies())
def test_whatever_comes_over_a_real_connection_is_classed(raw: bytes) -> None:
    script: Script = [(0.0, raw), (0.0, CLOSE)] if raw else [(0.0, CLOSE)]
    with FakeEngine(script) as fake:
        client = Client(Endpoint(fake.url), headers={}, timeout_s=5.0)
        exchange = client.post("/chat/completions", b"{}", lambda sent_s: None)
        client.close()
        assert fake.num_requests == 1
    assert_classed(request_of(exchange))


def damaged_replies(count: int) -> list[bytes]:
    source = random.Random(20260917)
    raw = STREAM_HEAD + http_chunk(GOOD_BODY) + STREAM_END
    found = []
    for _ in range(count):
        at = source.randrange(len(raw))
        found.append(raw[:at] + source.randbytes(source.randint(0, 4)) + raw[at + 2 :])
    return found


def test_no_damaged_reply_ends_a_run(tmp_path: Path) -> None:
    replies = damaged_replies(120)

    def script(seen: Seen) -> Script:
        return [(0.0, replies[seen.index]), (0.0, CLOSE)]

    with FakeEngine(script) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(len(replies), 4))
        result = run_load(config, lambda progress: None)
        assert fake.num_requests == len(replies)  # none of them is asked again
    requests = journal_of(config).requests
    assert result.ended == "complete"
    assert sum(result.counts.values()) == len(requests) == len(replies)
    assert len(result.counts) > 1
    for request in requests:
        assert_classed(request)


def test_bytes_behind_a_whole_reply_change_nothing_and_end_its_connection() -> None:
    raw = STREAM_HEAD + http_chunk(GOOD_BODY) + STREAM_END
    alone = apart_from_stamps(record_of([raw]))
    assert alone["status"] == "ok"
    for extra in (b"junk", b"HTTP/1.1 500 x\r\nContent-Length: 3\r\n\r\nabc", b"\x00"):
        assert apart_from_stamps(record_of([raw + extra])) == alone
        with FakeEngine([(0.0, raw + extra)]) as fake:
            client = Client(Endpoint(fake.url), headers={}, timeout_s=5.0)
            for _ in range(2):
                exchange = client.post("/chat/completions", b"{}", lambda sent_s: None)
                assert request_of(exchange).status == "ok"
            client.close()
            assert fake.num_connections == 2


def test_what_came_before_the_damage_is_kept_in_one_read_as_in_many() -> None:
    raw = STREAM_HEAD + http_chunk(GOOD_BODY) + b"zz\r\n"
    whole, split = record_of([raw]), record_of([raw[:-4], raw[-4:]])
    assert whole.http_status == 200
    assert (whole.status, len(whole.chunk_s)) == ("error", 3)
    assert apart_from_stamps(whole) == apart_from_stamps(split)
