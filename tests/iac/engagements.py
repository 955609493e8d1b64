"""An engagement whose stack is a tiny HTTP server, so that what is emitted can be run for real."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import yaml

from iac.verbs import emit
from teardown.records import Estimate, Headline, LaunchSpec, Stack, VerdictRecord, to_json

SERVER = '''"""Answers /health and /pid; /crash ends it with code 7; SIGTERM ends it with code 0."""
import http.server, json, os, pathlib, signal, sys
config = json.loads(pathlib.Path(sys.argv[1]).read_text())
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if config["options"].get("deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os._exit(7)
        body = {"/pid": str(os.getpid()), "/options": json.dumps(config["options"]),
                "/config": json.dumps(config),
                "/env": os.environ.get("GREETING", "")}.get(self.path, "ok").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
http.server.ThreadingHTTPServer((sys.argv[3], int(sys.argv[5])), Handler).serve_forever()
'''
NASTY = 'O\'Neil & "Söhne" $HOME ${x} %n %{if} {{ .Labels }} `id` \\ | <b>\n# two -- lines'
GOLDEN_CLIENT = "Example Voice"


def stack(engine: str = "llama.cpp", **options: bool | int | str | None) -> Stack:
    return Stack(
        engine=engine,
        launcher="vllm" if engine == "vllm" else "xllamacpp",
        version="1",
        model="org/model" if engine == "vllm" else "/models/tiny.gguf",
        served_model="tiny",
        options=dict(options),
    )


def launch_of(tuned: Stack, **changes: object) -> LaunchSpec:
    fields: dict[str, object] = {
        "argv": [
            "{python}",
            "{root}/serve.py",
            "{root}/engine.json",
            "--host",
            "{host}",
            "--port",
            "{port}",
        ],
        "files": {
            "serve.py": SERVER,
            "engine.json": json.dumps({"options": tuned.options}) + "\n",
        },
        "env": {"GREETING": "hello"},
        "packages": [],
        "health_path": "/health",
        "metrics_path": "/metrics",
        "start_timeout_s": 10.0,
        "drain_s": 5.0,
    }
    return LaunchSpec(**(fields | changes))  # type: ignore[arg-type]


def verdict(original: Stack, accepted: Stack | None, launch: LaunchSpec | None) -> VerdictRecord:
    after = Estimate(value=120.0, low=110.0, high=130.0, n=4, method="test")
    return VerdictRecord(
        outcome="improved" if accepted else "no_change_helps",
        sentence="It is faster.",
        goal_metric="output_tokens_per_s",
        at_least=1.1,
        goal_reached=accepted is not None,
        effect=None,
        noise_floor=None,
        headlines=[
            Headline(
                metric="output_tokens_per_s",
                label="Output",
                unit="tokens/s",
                better="higher",
                before=after,
                after=after,
                change=None,
            )
        ],
        kept=[],
        rejected={},
        proof_trial=None,
        original=original,
        accepted=accepted,
        launch=launch,
        oracle_sha256=None,
    )


def settings_of(client: str = GOLDEN_CLIENT, engine: str = "llama.cpp", **deploy: object) -> str:
    return yaml.safe_dump(
        {
            "client": client,
            "target": {"kind": "endpoint", "engine": engine, "url": "http://10.0.0.5:8080/v1"},
            "promises": {"ttft_s": {"p95": 0.8}, "attainment": 0.95},
            "deploy": deploy,
        },
        allow_unicode=True,
    )


def write_engagement(
    folder: Path,
    *,
    client: str = GOLDEN_CLIENT,
    original: Stack | None = None,
    accepted: Stack | Literal["default"] | None = "default",
    launch: LaunchSpec | Literal["default"] | None = "default",
    engine: str = "llama.cpp",
    **deploy: object,
) -> Path:
    """Write verdict.json and engagement.yaml of a stack that was tuned from 1 slot to 4."""
    folder.mkdir(exist_ok=True)
    slots = "max-num-seqs" if engine == "vllm" else "parallel"
    before = original or stack(engine, **{slots: 1})
    after = stack(engine, **{slots: 4}) if accepted == "default" else accepted
    spec = launch_of(after or before) if launch == "default" else launch
    (folder / "verdict.json").write_text(to_json(verdict(before, after, spec)), encoding="utf-8")
    text = settings_of(client, engine, **deploy)
    (folder / "engagement.yaml").write_text(text, encoding="utf-8")
    return folder


def run_emit(folder: Path) -> Path:
    """Emit and return `out/`."""
    emit.main([str(folder)], standalone_mode=False)
    return folder / "out"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return str(answer.read().decode())


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def eventually(what: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    """Return True as soon as `what` holds; errors of connections count as not yet."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if what():
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


def tool(name: str) -> str:
    """Return the path of a program; skip without it, fail where CI promises that it is there."""
    path = shutil.which(name)
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed, and CI must have it")
        pytest.skip(f"{name} is not installed")
    return path


def sh(*argv: str, env: dict[str, str] | None = None, timeout_s: float = 60) -> tuple[int, str]:
    """Run a program; return its exit code and both outputs."""
    done = subprocess.run(
        argv, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    return done.returncode, done.stdout + done.stderr
