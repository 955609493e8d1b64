"""Whether an address is an API, and what stands in between; one sentence for each way it is not."""

import socket
import ssl
import subprocess
import threading
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teardown.engines.llamacpp import LlamaCpp
from teardown.errors import TargetError
from teardown.preflight import endpoint
from teardown.preflight.endpoint import Reached, engine_of, metrics, reach, token_counts
from tests.fakes.engine import FakeEngine, Script, chat_stream, http_reply

ANSWER = chat_stream(["a", "b"])


def fault(url: str, model: str | None = None, key: str | None = None) -> str:
    reached = reach(url, model, key)
    assert reached.models == []
    (finding,) = reached.findings
    assert finding.level == "fail"
    assert finding.fix
    return f"{finding.text} -> {finding.fix}"


@contextmanager
def saying(first: bytes) -> Iterator[str]:
    """A server that says `first` to the first that comes, whatever is asked; its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(first)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            thread.join(10)


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(cert), "-subj", "/CN=elsewhere"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def test_a_good_address_lists_its_models() -> None:
    with FakeEngine(ANSWER, model="tiny") as fake:
        reached = reach(fake.url, None, None)
    assert reached.models == ["tiny"]
    assert reached.findings[0].level == "ok"


def test_an_address_that_is_none_and_one_without_v1_are_corrected() -> None:
    assert "no http or https address" in fault("gateway:8000/v1")
    assert "use http://gateway:8000/v1" in fault("http://gateway:8000")


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert f"nothing listens at 127.0.0.1:{port}" in fault(f"http://127.0.0.1:{port}/v1")


def test_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        error = TargetError("cannot be reached")
        error.__cause__ = urllib.error.URLError(socket.gaierror("Name or service not known"))
        raise error

    monkeypatch.setattr(endpoint, "fetch_json", unknown)
    assert "gateway is an unknown host" in fault("http://gateway/v1")


def test_a_server_that_accepts_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAGE_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert "did not answer within 0.1 s" in fault(f"http://127.0.0.1:{port}/v1")


def test_a_wrong_path_is_told_from_a_model_taken_at_its_word() -> None:
    with FakeEngine(ANSWER) as fake:
        assert "answers 404" in fault(f"{fake.root}/llm/v1")
        reached = reach(f"{fake.root}/llm/v1", "fake", None)
    assert reached.models == ["fake"]
    assert reached.findings[0].level == "warn"


def test_a_page_of_html_is_no_api() -> None:
    with FakeEngine(ANSWER, pages={"/v1/models": "<html>Welcome</html>"}) as fake:
        assert "a page for people" in fault(fake.url)


@pytest.mark.parametrize("body", ['{"data": []}', "[]", '{"data": "x"}', '{"data": [{"id": ""}]}'])
def test_a_list_without_a_model_is_no_api(body: str) -> None:
    with FakeEngine(ANSWER, pages={"/v1/models": body}) as fake:
        assert "lists no model" in fault(fake.url)


def test_a_key_that_is_wanted_is_asked_for_by_name() -> None:
    reply = http_reply(b'{"error": {"message": "no key"}}', status="401 Unauthorized")
    with saying(reply) as address:
        text = fault(f"http://{address}/v1")
    assert "it wants an API key" in text
    assert "--api-key-env" in text


def test_a_server_that_does_not_speak_http_is_told() -> None:
    with saying(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        assert "does not speak HTTP" in fault(f"http://{address}/v1")


def test_a_certificate_that_is_not_trusted_is_one_sentence(certificate: ssl.SSLContext) -> None:
    with FakeEngine(ANSWER, ssl_context=certificate) as fake:
        text = fault(fake.url)
    assert "the certificate of 127.0.0.1" in text
    assert "self-signed" in text
    assert "SSL_CERT_FILE" in text


def test_https_to_a_plain_server_is_told() -> None:
    with FakeEngine(ANSWER) as fake:
        assert "does not speak TLS" in fault(fake.url.replace("http://", "https://"))


def test_a_wrong_model_is_answered_with_the_right_ones() -> None:
    with FakeEngine(ANSWER, model="tiny") as fake:
        reached: Reached = reach(fake.url, "tinny", None)
    assert reached.models == []
    assert "serves tiny, not 'tinny'" in reached.findings[0].text


def test_an_engine_is_recognised_or_called_unknown() -> None:
    pages = {"/v1/models": '{"data": [{"id": "m", "owned_by": "vllm"}]}'}
    pages["/version"] = '{"version": "0.30.1"}'
    with FakeEngine(ANSWER, pages=pages) as fake:
        engine, finding = engine_of(fake.url, None)
    assert engine is not None
    assert (engine.name, finding.text) == ("vllm", "vllm 0.30.1")
    with FakeEngine(ANSWER) as fake:
        engine, finding = engine_of(fake.url, None)
    assert "no known kind" in finding.text


def test_metrics_are_fetched_and_their_absence_has_a_price() -> None:
    with FakeEngine(ANSWER, pages={"/metrics": "up 1\n"}) as fake:
        page = LlamaCpp().metrics_url(fake.url)
        assert page is not None
        assert metrics([page], None).level == "ok"
        found = metrics([f"{fake.root}/none"], None)
    assert (found.level, "404" in found.text, "--metrics" in found.fix) == ("warn", True, True)
    assert "waiting cannot be told" in metrics([], None).text
    assert "not granted" in metrics([], None, granted=False).text


def test_what_can_count_tokens_is_named() -> None:
    def counted(
        script: Script, local: str | None, has_usage: bool, tokenizer: str | None = None
    ) -> str:
        with FakeEngine(script) as fake:
            found = token_counts(
                fake.url, "fake", None, local=local, has_usage=has_usage, tokenizer=tokenizer
            )
        assert (found.level == "ok") == (has_usage or tokenizer is not None)
        return found.text

    page = [(0.0, http_reply(b'{"count": 3, "tokens": [1, 2, 3]}'))]
    none = [(0.0, http_reply(b"{}", status="404 Not Found"))]
    assert counted(none, None, True) == "by the server's usage alone"
    assert "the tokenizer in m.gguf and the server's /tokenize" in counted(page, "m.gguf", True)
    assert "there is no tokenizer" in counted(none, None, False)
    assert "/tokenize could count" in counted(page, None, False)
    assert "by the tokenizer in t.json" in counted(none, None, False, "t.json")
