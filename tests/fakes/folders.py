"""Engagement folders for tests against a scripted server, and servers whose capacity is known."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from teardown.engagement import Engagement
from tests.fakes.engine import FakeEngine, Script, Seen, chat_json, chat_stream


def write_folder(
    folder: Path, fake: FakeEngine, workload: dict[str, Any], **more: Any
) -> Engagement:
    """Write an engagement with one workload against `fake`; `more` are further sections."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "client": "Test",
        "access": {"metrics": "none", "logs": "none", "host": "none", "restart": "never"},
        "target": {"kind": "endpoint", "engine": "auto", "url": fake.url, "model": "fake"},
        "workloads": [{"name": "w", **workload}],
        **more,
    }
    (folder / "engagement.yaml").write_text(yaml.safe_dump(document))
    return Engagement(folder)


def is_load(seen: Seen) -> bool:
    """False for the kit's warm-up questions, which ask for one document."""
    return bool(seen.json.get("stream"))


def servers(number: int, service_s: float, texts: list[str]) -> Callable[[Seen], Script]:
    """Return scripts of a server with `number` places: each request takes `service_s` of one.

    The first text comes when half of the service is done, so the largest rate without a growing
    queue is number/service_s, and TTFT is service_s/2 below it.
    """
    lock = threading.Lock()
    free_s = [0.0] * number

    def script(seen: Seen) -> Script:
        if not is_load(seen):
            return chat_json("hello", at_ms=1)
        with lock:
            place = free_s.index(min(free_s))
            begin_s = max(seen.read_s, free_s[place])
            free_s[place] = begin_s + service_s
        first_ms = (begin_s + service_s / 2 - seen.read_s) * 1000
        gap_ms = service_s / 2 * 1000 / max(len(texts) - 1, 1)
        return chat_stream(texts, first_ms=first_ms, gap_ms=gap_ms)

    return script
