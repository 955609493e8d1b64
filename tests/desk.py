"""A small engagement on the embedded engine, for tests of the whole chain."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from teardown.engagement import Engagement
from teardown.load.table import read_requests
from teardown.records import Request

SYSTEM = (
    "You answer for Harbour Parcel. Be short and polite. Parcels travel by ferry, never on "
    "Sundays. A parcel that has not moved for three working days counts as late. Ask for the "
    "tracking number when it is missing, and never guess: a colleague writes within a day."
)
QUESTIONS = (
    "Where is my parcel?",
    "Do you deliver on Sundays?",
    "My parcel has not moved since Tuesday. Is it late?",
    "Can I change the address?",
    "Which ferry takes seven kilograms?",
    "The jar inside is broken. What now?",
)
BADLY_SERVED: dict[str, Any] = {
    "parallel": 1,
    "ctx-size": 4096,
    "batch-size": 64,
    "ubatch-size": 64,
    "cache-prompt": False,
    "cache-ram": 0,
    "threads": 2,
    "flash-attn": "on",
}
WELL_SERVED = BADLY_SERVED | {
    "parallel": 4,
    "kv-unified": True,
    "batch-size": 512,
    "ubatch-size": 512,
    "cache-prompt": True,
    "cache-ram": 128,
}


def write_desk(folder: Path, model: Path, options: dict[str, Any], **changes: Any) -> Engagement:
    """Write an engagement with 12 short requests of 4 users; `changes` replace its sections."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, question in enumerate(QUESTIONS):
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": question},
        ]
        lines.append({"messages": messages, "session": f"s{number}", "max_tokens": 8})
        messages = [
            *messages,
            {"role": "assistant", "content": "May I have the tracking number?"},
            {"role": "user", "content": f"It is HP20451883{number}."},
        ]
        lines.append({"messages": messages, "session": f"s{number}", "max_tokens": 12})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "prompts.jsonl").write_text(text)
    document: dict[str, Any] = {
        "client": 'Test "desk"',
        "target": {
            "kind": "local",
            "engine": "llama.cpp",
            "model": "smollm2",
            "launch": {
                "with": "xllamacpp",
                "model": str(model),
                "env": {"OMP_WAIT_POLICY": "passive"},
                "options": options,
            },
        },
        "workloads": [
            {
                "name": "chats",
                "kind": "closed",
                "prompts": "prompts.jsonl",
                "concurrency": 4,
                "extra_body": {"temperature": 0, "ignore_eos": True},
            }
        ],
        "promises": {"ttft_s": {"p95": 2.0}, "attainment": 0.9},
        "goal": {"metric": "ttft_p50", "at_least": 1.1},
        "budgets": {"trials": 2, "pairs": 4, "oracle_prompts": 4, "oracle_tokens": 16},
    }
    document |= changes
    (folder / "engagement.yaml").write_text(yaml.safe_dump(document))
    return Engagement(folder)


def start(*arguments: str) -> "subprocess.Popen[str]":
    """Start `teardown` with `arguments`; its output goes to pipes that `finish` reads."""
    return subprocess.Popen(
        [sys.executable, "-m", "teardown.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", timeout_s: float = 600) -> tuple[int, str]:
    """Wait for `process`; return its exit code and everything it printed."""
    output, _ = process.communicate(timeout=timeout_s)
    return process.returncode, output


def wait_for(process: "subprocess.Popen[str]", ready: Callable[[], bool], what: str) -> None:
    """Return once `ready`; fail when the kit ends first or nothing happens for four minutes."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if ready():
            return
        assert process.poll() is None, f"the kit ended before {what}: {process.communicate()[0]}"
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen")


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill the kit as the kernel would, without a chance to clean up."""
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def engine_pid(engagement: Engagement) -> int | None:
    """Return the process id of the engine that the local target has noted down."""
    state = engagement.target_dir / "state.json"
    if not state.exists():
        return None
    pid: int | None = json.loads(state.read_text()).get("pid")
    return pid


def is_alive(pid: int) -> bool:
    """True while the process runs; a zombie does not."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0] != "Z"
    return False


def wait_until_gone(pid: int) -> None:
    """Return once `pid` has ended; fail after ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not is_alive(pid):
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} outlived the kit ({os.getpid()} tests it)")


def journal_ends(engagement: Engagement) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return every finished record in open journals, by run, request and attempt."""
    found = {}
    for path in engagement.folder.glob("runs/*/requests.wal.jsonl"):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event.get("event") == "end":
                    record = event["record"]
                    key = (path.parent.name, record["request_id"], record.get("attempt", 1))
                    found[key] = record
    return found


def all_records(engagement: Engagement) -> dict[tuple[str, str, int], Request]:
    """Return every record of every finished run; fail when one is there twice."""
    found: dict[tuple[str, str, int], Request] = {}
    for path in sorted(engagement.folder.glob("runs/*/requests.parquet")):
        for request in read_requests(path):
            key = (path.parent.name, request.request_id, request.attempt)
            assert key not in found, f"{key} is recorded twice"
            found[key] = request
    return found
