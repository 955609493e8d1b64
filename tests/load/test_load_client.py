"""The client against scripted servers, in this process: gevent works unpatched."""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
import pytest

from teardown.load import client as load_client
from teardown.load.client import Client, Endpoint
from teardown.load.exchange import Exchange
from teardown.records import Request
from tests.fakes.certificates import certificate_for
from tests.fakes.engine import (
    CLOSE,
    HANG,
    RESET,
    STREAM_HEAD,
    Act,
    FakeEngine,
    Script,
    Seen,
    chat_cut,
    chat_error,
    chat_events,
    chat_json,
    chat_stream,
    http_reply,
    refusal,
    stream_script,
)
from tests.fakes.exchanges import request_of

PATH = "/chat/completions"
ANSWER = chat_stream(["a", "b", "c"], first_ms=3, gap_ms=2)


@contextmanager
def client_of(url: str, timeout_s: float = 5.0) -> Iterator[Client]:
    client = Client(Endpoint(url), headers={}, timeout_s=timeout_s)
    try:
        yield client
    finally:
        client.close()


def post(client: Client) -> Exchange:
    return client.post(PATH, b"{}", lambda sent_s: None)


def one_request(script: Script, timeout_s: float = 5.0) -> Request:
    with FakeEngine(script) as fake, client_of(fake.url, timeout_s) as client:
        return request_of(post(client))


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (ANSWER, "ok"),
        (chat_json("Hi", at_ms=2), "ok"),
        (chat_error(["a", "b"], first_ms=2, gap_ms=1), "error"),
        (chat_cut(["a", "b"], CLOSE, first_ms=2, gap_ms=1), "cut"),
        (chat_cut(["a", "b"], RESET, first_ms=2, gap_ms=1), "cut"),
        (stream_script([(1.0, b"data: [DONE]\n\n")]), "empty"),
        (stream_script([(1.0, b"data: {broken\n\n")]), "error"),
        (refusal(429), "refused"),
        (refusal(503), "refused"),
        (refusal(500), "error"),
        ([(0.0, CLOSE)], "error"),
        ([(0.0, RESET)], "error"),
        ([(0.0, b"SSH-2.0-OpenSSH\r\n")], "error"),
        ([(0.0, STREAM_HEAD + b"zz\r\n")], "error"),
        ([(0.0, STREAM_HEAD), (1.0, HANG)], "timeout"),
        ([(0.0, b"HTTP/1.1 100 Continue\r\n\r\n"), *ANSWER], "ok"),
    ],
)
def test_every_ending_on_the_wire_has_its_class(script: Script, status: str) -> None:
    request = one_request(script, timeout_s=0.3 if status == "timeout" else 5.0)
    assert request.status == status, request.error


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_answer_is_the_same_however_it_is_written(size: int) -> None:
    raw = STREAM_HEAD + b"".join(
        part for _, part in stream_script(chat_events(["Hel", "lo"]))[1:] if isinstance(part, bytes)
    )
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    script: Script = [(number * 0.05, piece) for number, piece in enumerate(pieces)]
    request = one_request(script)
    assert (request.status, request.output_tokens) == ("ok", 2)


def test_a_body_that_only_the_close_ends_is_complete() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    events = [(float(t_ms), data) for t_ms, data in chat_events(["a", "b"], first_ms=2, gap_ms=2)]
    request = one_request([(0.0, head), *events, (6.0, CLOSE)])
    assert (request.status, request.output_tokens) == ("ok", 2)
    assert request.stream_close_s is not None


def test_stamps_are_those_of_the_kernel_even_when_the_client_sleeps() -> None:
    with FakeEngine(chat_stream(["a", "b"], first_ms=30, gap_ms=40)) as fake:
        with client_of(fake.url) as client:
            poster = gevent.spawn(post, client)
            gevent.sleep(0.01)
            time.sleep(0.05)  # the whole event loop stands still while the first chunk arrives
            exchange = poster.get()
        request = request_of(exchange)
        written_s = fake.served[0].written_s
    chunk_s = [1000 + at for at in request.chunk_s]
    assert chunk_s[0] == pytest.approx(written_s[2], abs=0.008)
    assert chunk_s[1] == pytest.approx(written_s[3], abs=0.008)
    assert request.receive_lag_s is not None
    assert request.receive_lag_s >= 0.015


def test_case_41_one_connection_serves_request_after_request() -> None:
    with FakeEngine(ANSWER) as fake, client_of(fake.url) as client:
        exchanges = [post(client) for _ in range(20)]
        assert fake.num_connections == client.num_connections == 1
    assert exchanges[0].connect_s is not None
    assert all(exchange.connect_s is None for exchange in exchanges[1:])
    assert request_of(exchanges[1]).reasons["connect_s"] == "a kept-alive connection was used"


def test_a_connection_that_the_server_closed_while_idle_is_replaced_in_silence() -> None:
    with FakeEngine([*ANSWER, (8.0, CLOSE)]) as fake, client_of(fake.url) as client:
        statuses = []
        for _ in range(3):
            statuses.append(request_of(post(client)).status)
            gevent.sleep(0.03)
        assert statuses == ["ok"] * 3
        assert (fake.num_connections, fake.num_requests) == (3, 3)


@pytest.mark.parametrize("act", [CLOSE, RESET])
def test_a_reused_connection_that_dies_before_a_byte_is_retried_once(act: object) -> None:
    def script(seen: Seen) -> Script:
        return ANSWER if seen.index_on_connection == 0 else [(0.0, act)]  # type: ignore[list-item]

    with FakeEngine(script) as fake, client_of(fake.url) as client:
        exchanges = [post(client) for _ in range(2)]
        assert [request_of(exchange).status for exchange in exchanges] == ["ok", "ok"]
        assert exchanges[1].retries == 1
        assert fake.num_requests == 3


def test_a_reused_connection_that_dies_after_a_byte_is_not_retried() -> None:
    def script(seen: Seen) -> Script:
        return ANSWER if seen.index_on_connection == 0 else [(0.0, STREAM_HEAD), (1.0, CLOSE)]

    with FakeEngine(script) as fake, client_of(fake.url) as client:
        exchanges = [post(client) for _ in range(2)]
        assert request_of(exchanges[1]).status == "cut"
        assert fake.num_requests == 2


@pytest.mark.parametrize("act", [CLOSE, RESET])
def test_a_reused_connection_that_dies_late_had_the_request_and_is_not_retried(
    monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    monkeypatch.setattr(load_client, "RESEND_WITHIN_S", 0.05)

    def script(seen: Seen) -> Script:
        return ANSWER if seen.index_on_connection == 0 else [(150.0, act)]

    with FakeEngine(script) as fake, client_of(fake.url) as client:
        exchanges = [post(client) for _ in range(2)]
        assert request_of(exchanges[1]).status == "error"
        assert (exchanges[1].retries, fake.num_requests) == (0, 2)


def test_a_fresh_connection_that_dies_is_not_retried() -> None:
    with FakeEngine([(0.0, CLOSE)]) as fake, client_of(fake.url) as client:
        assert request_of(post(client)).status == "error"
        assert fake.num_requests == 1


def test_a_connection_is_not_used_again_after_connection_close() -> None:
    body = http_reply(b'{"choices": []}', headers=["Connection: close"])
    with FakeEngine([(0.0, body)]) as fake, client_of(fake.url) as client:
        post(client)
        post(client)
        assert fake.num_connections == 2


def test_a_closed_port_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with client_of(f"http://127.0.0.1:{port}/v1") as client:
        request = request_of(post(client))
    assert (request.status, request.sent_s) == ("refused", None)
    assert request.reasons["ttft_s"] == "nothing was sent"


def test_case_37_a_request_that_is_never_answered_frees_its_slot() -> None:
    with FakeEngine([[(0.0, HANG)], ANSWER]) as fake, client_of(fake.url, 0.2) as client:
        began_s = time.monotonic()
        assert request_of(post(client)).status == "timeout"
        assert time.monotonic() - began_s < 1.5
        assert client.num_in_flight == 0
        assert request_of(post(client)).status == "ok"


def test_what_is_in_flight_can_be_aborted() -> None:
    with FakeEngine([(0.0, STREAM_HEAD), (1.0, HANG)]) as fake, client_of(fake.url) as client:
        posters = [gevent.spawn(post, client) for _ in range(3)]
        while client.num_in_flight < 3:
            gevent.sleep(0.01)
        client.abort_all()
        assert [request_of(poster.get()).status for poster in posters] == ["aborted"] * 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate_for(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")


def test_kernel_stamps_survive_tls(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    answer = chat_stream(["a", "b", "c"], first_ms=20, gap_ms=10)
    with FakeEngine(answer, ssl_context=context) as fake, client_of(fake.url) as client:
        exchanges = [post(client) for _ in range(3)]
        assert fake.num_connections == 1
        written_s = fake.served[2].written_s
    requests = [request_of(exchange) for exchange in exchanges]
    assert [request.status for request in requests] == ["ok"] * 3
    assert len(exchanges[2].lags_s) == exchanges[2].num_reads  # stamping has begun by then
    errors = [
        1000 + at - true for at, true in zip(requests[2].chunk_s, written_s[2:], strict=False)
    ]
    assert max(errors) < 0.005
    assert min(errors) > -0.001


def test_a_certificate_that_nobody_vouches_for_is_an_error_in_words(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with FakeEngine(ANSWER, ssl_context=context) as fake, client_of(fake.url) as client:
        request = request_of(post(client))
    assert request.status == "error"
    assert "certificate verify failed" in (request.error or "")
