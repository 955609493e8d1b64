"""A well-behaved endpoint for the probe, in which each test spoils one thing."""

import json
from collections.abc import Callable

from teardown.load.probe import ProbePlan, ProbeReport
from teardown.load.probe_process import WRONG_MODEL, Prober
from teardown.preflight.finding import Finding
from tests.fakes.engine import (
    FakeEngine,
    Script,
    Seen,
    chat_json,
    chat_stream,
    http_reply,
    usage_document,
)

WORDS = ["one "] * 32
PROMPT_TOKENS = 150


def missing() -> Script:
    """No such page, or no such model."""
    body = json.dumps({"error": {"message": "not found", "code": 404}}).encode()
    return [(0.0, http_reply(body, status="404 Not Found"))]


def streamed(tokens: int = 32, cached: int = 0) -> Script:
    usage = usage_document(tokens, prompt=PROMPT_TOKENS, cached=cached)
    return chat_stream(WORDS[:tokens], first_ms=30, gap_ms=2, usage=usage)


def whole(cached: int = 144) -> Script:
    usage = usage_document(32, prompt=PROMPT_TOKENS, cached=cached)
    return chat_json("one " * 32, at_ms=92, usage=usage)


def name_of(seen: Seen) -> str:
    """Which of the probe's requests this is."""
    body = seen.json
    path = seen.path.rpartition("/")[2]
    if path in ("responses", "tokenize"):
        return path
    if body["model"] == WRONG_MODEL:
        return "wrong_model"
    if not body["stream"]:
        return "whole"
    if path == "completions" and "chat" not in seen.path and body["max_tokens"] == 1:
        return "completions"
    if body["max_tokens"] == 8:
        return "salted"
    return "chat" if "chat" in seen.path else "main"


def endpoint(**spoilt: Script) -> Callable[[Seen], Script]:
    """A server that does everything right but what `spoilt` says, by the name of the request.

    `chat` is the main request; `main` is its fallback to completions.
    """
    scripts: dict[str, Script] = {
        "chat": streamed(),
        "main": streamed(),
        "whole": whole(),
        "salted": streamed(8, cached=8),
        "wrong_model": missing(),
        "completions": streamed(1),
        "responses": missing(),
        "tokenize": missing(),
        **spoilt,
    }
    return lambda seen: scripts[name_of(seen)]


def probe(
    script: Script | Callable[[Seen], Script],
    *,
    budget_s: float = 10.0,
    idle_s: float = 0.0,
    idle_close_s: float | None = None,
    has_cache_salt: bool = False,
) -> tuple[ProbeReport, FakeEngine]:
    """Probe a fake in this process; return the report and what the fake saw."""
    with FakeEngine(script, idle_close_s=idle_close_s) as fake:
        plan = ProbePlan(
            url=fake.url,
            model="fake",
            budget_s=budget_s,
            idle_s=idle_s,
            has_cache_salt=has_cache_salt,
        )
        return Prober(plan).run("default"), fake


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}
