"""The serve program alone, as it is shipped."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from teardown.engines import serve_xllamacpp
from teardown.targets.ports import free_port

HOST = "127.0.0.1"
DEADLINE_S = 20


def configured(folder: Path, model: Path, **more: Any) -> list[str]:
    path = folder / "engine.json"
    options = {"threads": 1, "ctx-size": 1024, "warmup": False, "cache-ram": 0}
    config = {"model": str(model), "alias": "m", "host": HOST, "port": free_port(HOST)}
    config |= more | {"options": options | more.get("options", {})}
    path.write_text(json.dumps(config))
    return [sys.executable, serve_xllamacpp.__file__, str(path)]


def refused(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr.strip()


@contextmanager
def served(folder: Path, model: Path, **more: Any) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = configured(folder, model, **more)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    limit = threading.Timer(3 * DEADLINE_S, process.kill)  # a hang then reads as an ended log
    with process:
        try:
            limit.start()
            assert process.stderr is not None
            seen = []
            for line in process.stderr:
                seen.append(line)
                if "serve: ready" in line:  # the engine may have begun a line of its own before it
                    break
            else:
                pytest.fail(f"ended with {process.wait()} before it was ready: {''.join(seen)}")
            ready = seen[-1]
            yield process, int(ready.split(" port ")[1].split()[0])
        finally:
            limit.cancel()
            process.kill()


@contextmanager
def stream(port: int, max_tokens: int) -> Iterator[http.client.HTTPResponse]:
    """Yield a running stream, once its first event is there."""
    connection = http.client.HTTPConnection(HOST, port, timeout=DEADLINE_S)
    body = {"prompt": "The sea", "max_tokens": max_tokens, "stream": True, "ignore_eos": True}
    connection.request("POST", "/v1/completions", json.dumps(body))
    with connection.getresponse() as response:
        assert response.readline().startswith(b"data: ")
        yield response
    connection.close()


def test_one_sentence_for_each_thing_that_cannot_be(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    assert refused(configured(tmp_path, model)) == (
        2,
        f"serve: the model {model} cannot be read: No such file or directory",
    )
    model.write_bytes(b"ELF\x00")
    code, said = refused(configured(tmp_path, model))
    assert code == 2 and "is not a GGUF file" in said
    model.write_bytes(b"GGUF" + bytes(60))
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused(configured(tmp_path, model, port=port))
    assert code == 2 and said.startswith(f"serve: port {port} on {HOST} cannot be used")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ([], "must be a JSON object"),
        ({"modell": "m"}, "unknown key 'modell'"),
        ({"model": "m"}, "no port: give it in"),
        ({"port": 1}, "no model: give it in"),
        ({"model": "m", "port": "{port}"}, "the port is '{port}' but must be a number"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(tmp_path: Path, config: Any, said: str) -> None:
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(config))
    code, line = refused([sys.executable, serve_xllamacpp.__file__, str(path)])
    assert code == 2 and said in line and "\n" not in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"paralel": 2}, "unknown option 'paralel'; did you mean 'parallel'?"),
        ({"parallel": "2"}, "option 'parallel' is '2' but takes a whole number"),
        ({"parallel": True}, "option 'parallel' is True but takes a whole number"),
        ({"ctx-size": 10**12}, "option 'ctx-size' is 1000000000000 but value too large"),
        ({"cache-type-k": "q3_0"}, "option 'cache-type-k' is 'q3_0' but takes one of f32, f16"),
        ({"flash-attn": "maybe"}, "takes on, off or auto"),
        ({"cache-prompt": 1}, "takes true or false"),
        ({"spec-type": "magic"}, "takes one of"),
        ({"prio": 99}, "takes -1 (low) to 3"),
    ],
)
def test_a_wrong_option_is_one_sentence(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    pytest.importorskip("xllamacpp")
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF" + bytes(60))
    code, line = refused(configured(tmp_path, model, options=options))
    assert code == 2 and said in line and "\n" not in line


@pytest.mark.engine
def test_sigterm_lets_a_short_stream_finish(tmp_path: Path, model: Path) -> None:
    with served(tmp_path, model, drain_s=DEADLINE_S) as (process, port):
        with stream(port, 24) as response:
            process.send_signal(signal.SIGTERM)
            assert b"[DONE]" in response.read()
        assert process.wait(DEADLINE_S) == 0


@pytest.mark.engine
def test_sigterm_ends_a_long_stream_at_the_deadline_and_a_second_one_at_once(
    tmp_path: Path, model: Path
) -> None:
    for drain_s, signals in ((0.3, 1), (600, 2)):
        with served(tmp_path, model, drain_s=drain_s) as (process, port), stream(port, 1000):
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            assert any("serve: draining" in line for line in iter(process.stderr.readline, ""))
            if signals == 2:
                process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0


@pytest.mark.engine
def test_an_idle_server_ends_at_once(tmp_path: Path, model: Path) -> None:
    with served(tmp_path, model, options={"metrics": False}) as (process, _):
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
