"""The oracle on the real embedded engine: a 4-bit cache is refused, a faster schedule is not."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import teardown.engines
from teardown.errors import TargetError
from teardown.http import fetch
from teardown.records import Stack
from tuning.oracle import ask_all, judge, load, store
from tuning.oracle.twin import numerical_twin

SERVE = Path(teardown.engines.__file__).with_name("serve_xllamacpp.py")
START_TIMEOUT_S = 30.0
NUM_TOKENS = 24
CONCURRENCY = 4
CONTEXT_TOKENS = 256
# A support desk's rules, long enough that the cache matters; one thread, because the machine
# of a test is shared and ggml's threads spin.
RULES = (
    "You answer for a parcel service. Parcels up to 30 kg are taken at any counter. Standard "
    "delivery takes two to four working days and costs 4.90 euros, express delivery one working "
    "day and 12.50 euros. A parcel can be sent to another address once, free of charge, until it "
    "is on the van. Lost parcels are searched for ten working days. Damage must be reported "
    "within seven days. Answer in at most three sentences."
)
QUESTIONS = (
    "My parcel has not come for six days. What can I do?",
    "How much is express delivery?",
    "The vase in my parcel is broken. What now?",
    "How heavy may a parcel be?",
    "Explain to a child what a parcel counter is.",
)
PROMPTS = [
    {"messages": [{"role": "system", "content": RULES}, {"role": "user", "content": q}]}
    for q in QUESTIONS
]
ORIGINAL = {
    "parallel": 1,
    "ctx-size": 4096,
    "batch-size": 64,
    "ubatch-size": 64,
    "cache-prompt": False,
    "cache-ram": 0,
    "threads": 1,
}
FASTER = {
    "parallel": 8,
    "kv-unified": True,
    "batch-size": 2048,
    "ubatch-size": 512,
    "cache-prompt": True,
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def engine(folder: Path, model: Path, options: dict) -> Iterator[str]:
    """Serve the embedded model with `options`; yield its URL; end it whatever happens."""
    port = free_port()
    config = folder / f"{port}.json"
    config.write_text(
        json.dumps({"model": str(model), "alias": "m", "port": port, "options": options})
    )
    with (folder / f"{port}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(SERVE), str(config)],
            stderr=log,
            env={**os.environ, "TEARDOWN_PARENT_PID": str(os.getpid())},
        )
        try:
            wait_until_healthy(process, port)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()


def wait_until_healthy(process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            fetch(f"http://127.0.0.1:{port}/health", timeout_s=2)
            return
        except TargetError:
            time.sleep(0.1)
    pytest.fail("the engine did not start")


@pytest.mark.engine
def test_a_four_bit_cache_is_refused_and_a_faster_schedule_passes(tmp_path):
    pytest.importorskip("xllamacpp")
    embedded = pytest.importorskip("teardown.engines.embedded")
    model = embedded.embedded_model(None)

    def asked(options, concurrency):
        with engine(tmp_path, model, options) as url:
            return ask_all(url, "m", PROMPTS, NUM_TOKENS, concurrency)

    answers = asked(ORIGINAL, 1)
    stack = Stack(
        engine="llama.cpp",
        launcher="xllamacpp",
        version=None,
        model="embedded",
        served_model="m",
        options=ORIGINAL,
    )
    twin = asked(numerical_twin("llama.cpp", ORIGINAL, CONTEXT_TOKENS), CONCURRENCY)
    store(tmp_path / "oracle", stack, PROMPTS, NUM_TOKENS, answers, {"twin": twin})
    reference = load(tmp_path / "oracle", PROMPTS)

    faster = judge(reference, reference.record.noise, asked({**ORIGINAL, **FASTER}, CONCURRENCY))
    assert faster.passed, [c.says for c in faster.checks]

    coarse = {**ORIGINAL, **FASTER, "cache-type-k": "q4_0", "cache-type-v": "q4_0"}
    refused = judge(reference, reference.record.noise, asked(coarse, CONCURRENCY))
    shift = next(c for c in refused.checks if c.name == "log-probabilities")
    assert not refused.passed
    assert shift.value > shift.band
