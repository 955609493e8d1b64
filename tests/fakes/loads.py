"""Small schedules and load configurations for tests that send something."""

import json
from pathlib import Path
from typing import Any

from teardown.load.config import LoadConfig
from teardown.load.journal import Journal, read_journal
from teardown.records import Schedule, ScheduledRequest, to_json


def closed_schedule(num_requests: int, concurrency: int, *, lanes: int | None = None) -> Schedule:
    """One-shot requests dealt out over the lanes."""
    lanes = lanes or concurrency
    return schedule(
        [item(number, lane=number % lanes) for number in range(num_requests)],
        concurrency=concurrency,
    )


def open_schedule(num_requests: int, rate_per_s: float) -> Schedule:
    """Evenly spaced one-shot requests."""
    items = [item(n, intended_s=n / rate_per_s) for n in range(num_requests)]
    return schedule(items, kind="open", rate_per_s=rate_per_s)


def item(number: int, **more: Any) -> ScheduledRequest:
    fields: dict[str, Any] = {
        "request_id": f"r{number}",
        "prompt": 0,
        "prompt_sha256": "0" * 64,
        "session": f"s{number}",
        "turn": 0,
        "max_tokens": 16,
        "lane": 0,
    }
    return ScheduledRequest(**fields | more)


def schedule(items: list[ScheduledRequest], **more: Any) -> Schedule:
    fields: dict[str, Any] = {
        "workload": "test",
        "kind": "closed",
        "seed": 1,
        "concurrency": 1,
        "rate_per_s": None,
        "prompts_sha256": "0" * 64,
        "requests": items,
    }
    return Schedule(**fields | more)


def load_config(
    folder: Path,
    url: str,
    plan: Schedule,
    *,
    prompts: list[dict[str, Any]] | None = None,
    **more: Any,
) -> LoadConfig:
    """Write schedule and prompts into `folder` and return a configuration for them."""
    lines = prompts or [{"messages": [{"role": "user", "content": "Say hello."}]}]
    (folder / "schedule.json").write_text(to_json(plan))
    (folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    fields: dict[str, Any] = {
        "url": url,
        "model": "fake",
        "schedule_path": str(folder / "schedule.json"),
        "prompts_path": str(folder / "prompts.jsonl"),
        "journal_path": str(folder / "requests.wal.jsonl"),
        "result_path": str(folder / "load.json"),
        "timeout_s": 10.0,
    }
    return LoadConfig(**fields | more)


def journal_of(config: LoadConfig) -> Journal:
    return read_journal(Path(config.journal_path))
