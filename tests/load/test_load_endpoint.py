"""Where requests go: addresses, proxies of the environment, headers and keys."""

import base64
import socket
import ssl
from pathlib import Path
from typing import Any

import gevent.socket
import pytest

from teardown.errors import UsageError
from teardown.load.client import Client, Endpoint
from teardown.load.headers import headers_of
from teardown.load.proxy import proxy_for
from teardown.load.wire import resolve
from teardown.measure import measure_run
from teardown.records import Request
from tests.fakes.engine import FakeEngine, chat_json, chat_stream
from tests.fakes.exchanges import request_of
from tests.fakes.loads import closed_schedule, job_on, load_config
from tests.fakes.proxy import FakeProxy

ANSWER = chat_stream(["a", "b", "c"], first_ms=3, gap_ms=2)
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
KEY = "c2VjcmV0"


@pytest.fixture(autouse=True)
def _no_proxy_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def ask(url: str, count: int = 1) -> list[Request]:
    client = Client(Endpoint(url), headers={}, timeout_s=5.0)
    try:
        return [
            request_of(client.post("/chat/completions", b"{}", lambda sent_s: None))
            for _ in range(count)
        ]
    finally:
        client.close()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_plain_requests_go_through_the_proxy_in_absolute_form(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with FakeEngine(ANSWER) as fake:
        hosts = {"engine.test": ("127.0.0.1", fake.port)}
        with FakeProxy(hosts) as proxy:
            monkeypatch.setenv(name, proxy.url)
            requests = ask("http://engine.test/v1", 2)
        assert fake.num_connections == 1
    assert [request.status for request in requests] == ["ok", "ok"]
    assert proxy.heads[0].startswith("POST http://engine.test/v1/chat/completions HTTP/1.1\r\n")
    assert "Host: engine.test\r\n" in proxy.heads[0]


@pytest.fixture(scope="module")
def named_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.fakes.certificates import certificate_for

    return certificate_for(tmp_path_factory.mktemp("tls"), "DNS:engine.test")


def test_tls_goes_through_a_tunnel_of_the_proxy_and_keeps_its_stamps(
    monkeypatch: pytest.MonkeyPatch, named_certificate: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(named_certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(named_certificate)
    with FakeEngine(ANSWER, ssl_context=context) as fake:
        hosts = {"engine.test": ("127.0.0.1", fake.port)}
        with FakeProxy(hosts, authorization=f"Basic {KEY}") as proxy:
            user = base64.b64decode(KEY).decode()
            address = proxy.url.replace("//", f"//{user[:3]}:{user[3:]}@")
            monkeypatch.setenv("https_proxy", address)
            refused = ask("https://engine.test/v1")[0]
            monkeypatch.setattr(proxy, "_authorization", None)
            requests = ask("https://engine.test/v1", 3)
        assert fake.num_connections == 1
    assert refused.status == "error"
    assert "the proxy refused to connect: 407 Proxy Authentication Required" in str(refused.error)
    assert refused.sent_s is None
    assert [request.status for request in requests] == ["ok"] * 3
    assert proxy.heads[0].startswith("CONNECT engine.test:443 HTTP/1.1\r\nHost: engine.test:443")
    assert requests[2].receive_lag_s is not None


def test_the_name_and_password_of_a_proxy_are_sent_to_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:s%20cret@127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://me:s%20cret@127.0.0.1:9")
    line = "Proxy-Authorization: Basic " + base64.b64encode(b"me:s cret").decode()
    assert line in Endpoint("http://engine.test/v1").head("/x")
    assert "Proxy" not in Endpoint("https://engine.test/v1").head("/x")


@pytest.mark.parametrize(
    ("host", "exempt", "is_proxied"),
    [
        ("engine.test", "", True),
        ("engine.test", "engine.test", False),
        ("a.engine.test", ".engine.test", False),
        ("engine.test", "other.test", True),
        ("engine.test", "*", False),
        ("127.0.0.1", "", False),
        ("localhost", "", False),
        ("::1", "", False),
    ],
)
def test_no_proxy_and_this_very_host_are_asked_directly(
    monkeypatch: pytest.MonkeyPatch, host: str, exempt: str, is_proxied: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("no_proxy", exempt)
    assert (proxy_for("http", host, 80) is not None) == is_proxied


@pytest.mark.parametrize(
    "address", ["socks5://u:hidden@h:1080", "https://u:hidden@h", "h:x:hidden"]
)
def test_a_proxy_that_cannot_be_spoken_to_is_a_usage_error_without_its_password(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", address)
    with pytest.raises(UsageError, match="HTTP_PROXY") as caught:
        proxy_for("http", "engine.test", 80)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["ftp://host/v1", "host:80", "http:///v1", "http://h:99999/v1", "http://[::1/v1", "http://h:x"],
)
def test_an_address_that_is_not_http_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="is not an"):
        Endpoint(url)


def test_a_key_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="holds a user name") as caught:
        Endpoint("http://me:hidden@127.0.0.1/v1")
    assert "hidden" not in str(caught.value)


def test_a_query_of_the_address_goes_with_every_request() -> None:
    head = Endpoint("http://127.0.0.1:9/openai/?api-version=2026-01").head("/chat/completions")
    assert head.startswith("POST /openai/chat/completions?api-version=2026-01 HTTP/1.1\r\n")


def test_a_host_with_several_addresses_is_asked_at_the_one_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed_port = listener.getsockname()[1]
    with FakeEngine(ANSWER) as fake:
        both = [*resolve("127.0.0.1", closed_port), *resolve("127.0.0.1", fake.port)]
        endpoint = Endpoint(fake.url)
        endpoint.addresses = list(both)
        client = Client(endpoint, headers={}, timeout_s=5.0)
        request = request_of(client.post("/chat/completions", b"{}", lambda sent_s: None))
        client.close()
    assert request.status == "ok"
    assert endpoint.addresses == [both[1], both[0]]


def test_localhost_has_all_its_addresses() -> None:
    found = {address.sockaddr[0] for address in resolve("localhost", 80)}
    expected = {a[4][0] for a in gevent.socket.getaddrinfo("localhost", 80)}
    assert found == expected


def config_with(tmp_path: Path, **more: Any) -> Any:
    return load_config(tmp_path, "http://h/v1", closed_schedule(1, 1), **more)


def test_keys_and_headers_come_from_files_and_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("sk-file\n")
    monkeypatch.setenv("GATEWAY", "g-1")
    config = config_with(
        tmp_path,
        api_key_file=str(tmp_path / "key"),
        extra_headers={"X-Gate": "env:GATEWAY", "X-Two": f"file:{tmp_path / 'key'}", "X-Team": "a"},
    )
    assert headers_of(config) == {
        "Accept": "text/event-stream",
        "X-Gate": "g-1",
        "X-Two": "sk-file",
        "X-Team": "a",
        "Authorization": "Bearer sk-file",
    }


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"api_key_file": "/nowhere/key"}, "the key in /nowhere/key cannot be read"),
        ({"api_key_file": "/dev/null"}, "the file /dev/null has no key"),
        ({"extra_headers": {"X-A": "env:NO_SUCH"}}, "X-A is read from NO_SUCH, which is not set"),
        ({"extra_headers": {"X-A": "a\r\nX-B: b"}}, "a line break"),
        ({"extra_headers": {"Content-Length": "3"}}, "'Content-Length' cannot be set"),
        ({"extra_headers": {"": "3"}}, "cannot be set"),
    ],
)
def test_a_missing_key_or_a_wrong_header_is_a_usage_error(
    tmp_path: Path, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        headers_of(config_with(tmp_path, **more))


@pytest.mark.parametrize("line", [{"input": "one?"}, {"prompt": "one?"}])
def test_an_engagements_key_and_headers_reach_the_server_and_no_file(
    tmp_path: Path, line: dict[str, Any]
) -> None:
    (tmp_path / "key").write_text("sk-very-secret\n")
    with FakeEngine(lambda seen: ANSWER if "stream" in seen.json else chat_json("ready")) as fake:
        job = job_on(
            tmp_path,
            fake.url,
            [line, line],
            api_key_file=str(tmp_path / "key"),
            headers={"X-Gate": f"file:{tmp_path / 'key'}"},
        )
        measure_run(job, lambda progress: None)
        seen = [served.seen for served in fake.served]
    (tmp_path / "key").unlink()
    # the warm-up asks the endpoint of the prompts: a stack may serve one alone
    assert len({one.path for one in seen}) == 1
    assert [one.headers["authorization"] for one in seen] == ["Bearer sk-very-secret"] * 4
    assert [one.headers.get("x-gate") for one in seen[2:]] == ["sk-very-secret"] * 2
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"sk-very-secret" not in path.read_bytes()
