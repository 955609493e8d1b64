"""GuideLLM and AIPerf from PyPI, each in a venv of its own, on the paced server.

They may use every core: they are many processes. Their CPU time has their start-up in it.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench_load.server import CannotRun, PacedServer

HOME = Path(os.environ.get("TEARDOWN_BENCH", Path.home() / ".cache/teardown/bench"))
REQUIREMENTS = {
    "clients": ["aiohttp==3.14.5", "httpx==0.28.1", "uvloop==0.23.0", "orjson"],
    "guidellm": ["guidellm==0.8.1"],
    "aiperf": ["aiperf==0.13.0"],
}
INSTALL_S, RUN_S = 1800.0, 180.0
PROMPT_TOKENS, OUTPUT_TOKENS = 32, 160
SYNTHETIC = f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a tool says of the paced server; milliseconds. cpu_us: per event, start-up included."""

    name: str
    ttft_ms: float
    gap_ms: float
    cpu_us: float
    elapsed_s: float


def python_of(name: str) -> Path:
    """Return the Python of a peer's venv, made and filled where it is missing.

    CannotRun where it cannot be installed.
    """
    folder = HOME / name
    python = folder / "bin/python"
    wanted = "\n".join(REQUIREMENTS[name])
    ready = folder / "ready"
    if ready.exists() and ready.read_text() == wanted:
        return python
    sys.stderr.write(f"installing {', '.join(REQUIREMENTS[name])} into {folder}\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([sys.executable, "-m", "venv", str(folder)], INSTALL_S)
    _run([*pip, "--only-binary", ":all:", *REQUIREMENTS[name]], INSTALL_S)
    ready.write_text(wanted)
    return python


def run_guidellm(server: PacedServer, folder: Path, num_streams: int, per_stream: int) -> Reported:
    """Run GuideLLM with `num_streams` concurrent streams."""
    python = python_of("guidellm")
    tokenizer = _tokenizer(python, folder)
    root = server.url.removesuffix("/v1")
    command = [
        *(str(python.with_name("guidellm")), "run"),
        *("--backend", f"kind=openai_http,target={root},model=paced"),
        *("--profile", f"kind=concurrent,streams={num_streams}"),
        *("--constraint", f"kind=max_requests,count={num_streams * per_stream}"),
        *("--data", SYNTHETIC),
        *("--tokenizer", f"kind=huggingface_auto,model={tokenizer}"),
        *("--output", f"kind=json,path={folder / 'guidellm.json'}"),
        "--disable-console",
    ]
    cpu_s, elapsed_s = _timed(command)
    metrics = json.loads((folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
    return Reported(
        name="GuideLLM 0.8.1",
        ttft_ms=metrics["time_to_first_token_ms"]["successful"]["mean"],
        gap_ms=metrics["inter_token_latency_ms"]["successful"]["mean"],
        cpu_us=cpu_s / (num_streams * per_stream * server.num_events) * 1e6,
        elapsed_s=elapsed_s,
    )


def run_aiperf(server: PacedServer, folder: Path, num_streams: int, per_stream: int) -> Reported:
    """Run AIPerf with `num_streams` concurrent streams."""
    python = python_of("aiperf")
    tokenizer = _tokenizer(python, folder)
    command = [
        *(str(python.with_name("aiperf")), "profile", "--model", "paced"),
        *("--url", server.url.removesuffix("/v1"), "--endpoint-type", "chat", "--streaming"),
        *("--concurrency", str(num_streams), "--request-count", str(num_streams * per_stream)),
        *("--synthetic-input-tokens-mean", str(PROMPT_TOKENS)),
        *("--output-tokens-mean", str(OUTPUT_TOKENS)),
        *("--tokenizer", str(tokenizer), "--output-artifact-dir", str(folder), "--ui", "none"),
    ]
    cpu_s, elapsed_s = _timed(command)
    found = next(folder.rglob("profile_export_aiperf.json"), None)
    if found is None:
        raise CannotRun("AIPerf left no profile_export_aiperf.json")
    metrics = json.loads(found.read_text())
    return Reported(
        name="AIPerf 0.13.0",
        ttft_ms=metrics["time_to_first_token"]["avg"],
        gap_ms=metrics["inter_token_latency"]["avg"],
        cpu_us=cpu_s / (num_streams * per_stream * server.num_events) * 1e6,
        elapsed_s=elapsed_s,
    )


PEERS: dict[str, Callable[[PacedServer, Path, int, int], Reported]] = {
    "GuideLLM 0.8": run_guidellm,
    "AIPerf 0.13": run_aiperf,
}


def _tokenizer(python: Path, folder: Path) -> Path:
    """Make a tokenizer on this host: neither tool may fetch one."""
    path = folder / "tokenizer"
    _run([str(python), str(Path(__file__).with_name("make_tokenizer.py")), str(path)], RUN_S)
    return path


def _timed(command: list[str]) -> tuple[float, float]:
    """Run `command`; return processor time of it and its children, and wall time."""

    def cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before_s, began_s = cpu_s(), time.monotonic()
    _run(command, RUN_S)
    return cpu_s() - before_s, time.monotonic() - began_s


def _run(command: list[str], timeout_s: float) -> None:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"{name} did not end within {timeout_s:g} s") from error
    if done.returncode != 0:
        lines: list[Any] = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotRun(f"{name} failed: {' '.join(lines[-3:])[-300:]}")
