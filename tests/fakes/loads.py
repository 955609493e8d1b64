"""Small schedules and load configurations for tests that send something."""

import json
from pathlib import Path
from typing import Any

import yaml

from teardown.engagement import Engagement
from teardown.load.config import LoadConfig
from teardown.load.journal import Journal, read_journal
from teardown.measure import Job
from teardown.records import Schedule, ScheduledRequest, to_json
from teardown.settings import load_settings
from teardown.targets.endpoint import EndpointTarget


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


def job_on(folder: Path, url: str, lines: list[dict[str, Any]], **target: Any) -> Job:
    """An engagement on the endpoint at `url` with one workload of two users, ready to be measured.

    lines: its prompts; target: further settings of the target.
    """
    (folder / "prompts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    document = {
        "client": "Example",
        "target": {"kind": "endpoint", "url": url, "model": "fake", "metrics": "none", **target},
        "access": {"metrics": "none", "host": "none"},
        "workloads": [
            {
                "name": "w",
                "kind": "closed",
                "prompts": "prompts.jsonl",
                "regime": "cold",
                "concurrency": 2,
            }
        ],
    }
    (folder / "engagement.yaml").write_text(yaml.safe_dump(document))
    settings = load_settings(folder / "engagement.yaml")
    return Job(
        engagement=Engagement(folder),
        settings=settings,
        load=settings.workloads[0],
        target=EndpointTarget(url, "fake"),
        stack="before",
    )


def journal_of(config: LoadConfig) -> Journal:
    return read_journal(Path(config.journal_path))
