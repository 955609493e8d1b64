"""`teardown doctor` as a user meets it: one screen, one document, the right exit code."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from teardown.preflight import Finding, render
from tests.fakes.engine import FakeEngine, chat_json
from tests.preflight.endpoints import endpoint, name_of

KUBECTL = str(Path(__file__).parents[1] / "fakes" / "kubectl")
SCREEN_LINES = 24


def teardown(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "teardown.cli", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in result.stderr
    return result


@contextmanager
def port_forward_to(fake: FakeEngine) -> Iterator[str]:
    """A process that calls itself `kubectl port-forward`, in front of `fake`; its URL."""
    command = [sys.executable, KUBECTL, "port-forward", "svc/llm", f"0:{fake.port}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.kill()
        process.communicate()


def write_engagement(folder: Path, url: str, **access: str) -> str:
    folder.mkdir()
    (folder / "prompts.jsonl").write_text('{"prompt": "hello", "max_tokens": 8}\n')
    document = {
        "client": "c",
        "access": {"host": "none", **access},
        "target": {"kind": "endpoint", "url": url, "model": "fake"},
        "workloads": [{"name": "a", "kind": "closed", "prompts": "prompts.jsonl"}],
    }
    (folder / "engagement.yaml").write_text(yaml.safe_dump(document))
    return str(folder)


def test_headers_of_the_engagement_go_with_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TENANT", "blue")
    with FakeEngine(endpoint()) as fake:
        folder = write_engagement(tmp_path / "e", fake.url)
        path = Path(folder) / "engagement.yaml"
        text = path.read_text()
        path.write_text(
            text.replace("  model: fake", "  model: fake\n  headers: {X-T: env:A_TENANT}")
        )
        result = teardown("doctor", folder)
        sent = {s.seen.headers.get("x-t") for s in fake.served if name_of(s.seen) != "tokenize"}
    assert result.returncode == 0, result.stderr
    assert sent == {"blue"}


def test_a_good_endpoint_fits_on_one_screen_and_says_what_comes_next() -> None:
    with FakeEngine(endpoint()) as fake:
        result = teardown("doctor", "--url", fake.url)
        generating = [s.seen for s in fake.served if name_of(s.seen) != "tokenize"]
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) <= SCREEN_LINES
    assert max(map(len, result.stdout.splitlines())) <= 110
    assert result.stdout.splitlines()[-1] == f"next: teardown init DIR --url {fake.url}"
    assert "at most 6 small requests" in result.stderr
    assert "no load" in result.stderr
    assert len(generating) == 6


def test_an_engagement_is_checked_with_its_rights_and_workloads(tmp_path: Path) -> None:
    with FakeEngine(endpoint()) as fake:
        folder = write_engagement(tmp_path / "e", fake.url, restart="never")
        result = teardown("doctor", folder)
    assert result.returncode == 0, result.stderr
    assert "warn  access.restart: not granted: without restarts nothing is tried" in result.stdout
    assert "ok    access.metrics, access.logs: granted" in result.stdout
    assert "workload a: 1 prompts in 1 sessions" in result.stdout
    assert len(result.stdout.splitlines()) <= SCREEN_LINES + 8


def test_a_failed_check_is_one_document_with_json_and_exit_3() -> None:
    with FakeEngine(endpoint(chat=chat_json("one two"))) as fake:
        result = teardown("doctor", "--url", fake.url, "--json")
    assert result.returncode == 3
    document = json.loads(result.stdout)
    assert document["schema"] == "teardown.doctor/1"
    assert all(set(check) == {"name", "level", "text", "fix"} for check in document["checks"])
    (failed,) = [check for check in document["checks"] if check["level"] == "fail"]
    assert failed["name"] == "streaming"
    assert "1 check(s) failed: streaming" in result.stderr


def test_an_unreachable_address_is_exit_3_and_the_host_is_checked_all_the_same() -> None:
    result = teardown("doctor", "--url", "http://127.0.0.1:9/v1")
    assert result.returncode == 3
    assert "FAIL  endpoint: nothing listens at 127.0.0.1:9" in result.stdout
    assert "ok    disk" in result.stdout


def test_a_key_is_taken_from_the_environment_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_KEY", "s3cret")
    with FakeEngine(endpoint()) as fake:
        result = teardown("doctor", "--url", fake.url, "--api-key-env", "A_KEY")
        sent = {served.seen.headers.get("authorization") for served in fake.served}
    assert result.returncode == 0, result.stderr
    assert sent == {"Bearer s3cret"}
    assert "s3cret" not in result.stdout + result.stderr
    result = teardown("doctor", "--url", "http://127.0.0.1:9/v1", "--api-key-env", "NO_KEY")
    assert (result.returncode, "NO_KEY" in result.stderr) == (2, True)


def test_a_port_forward_fails_the_check_and_is_refused_by_measure(tmp_path: Path) -> None:
    with FakeEngine(endpoint()) as fake, port_forward_to(fake) as url:
        folder = write_engagement(tmp_path / "e", url)
        result = teardown("doctor", "--url", url)
        asked = fake.num_requests
        measured = teardown("measure", folder)
        assert fake.num_requests == asked  # not one request was timed
    assert result.returncode == 3
    assert "FAIL  port-forward: `kubectl port-forward" in result.stdout
    assert measured.returncode == 3
    (sentence,) = [line for line in measured.stderr.splitlines() if "teardown: " in line]
    assert "whose delay would be measured" in sentence


def test_good_checks_that_say_the_same_share_a_line_and_the_worst_come_last() -> None:
    text = render(
        [
            Finding(name="a", level="fail", text="broken", fix="mend it"),
            Finding(name="b", level="ok", text="granted"),
            Finding(name="c", level="ok", text="granted"),
            Finding(name="d", level="warn", text="x " * 80),
        ]
    )
    lines = text.splitlines()
    assert lines[0] == "ok    b, c: granted"
    assert lines[1].startswith("warn  d: x x")
    assert lines[2].startswith("      x x")
    assert lines[-2:] == ["FAIL  a: broken", "      -> mend it"]
