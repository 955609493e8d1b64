"""Begin an engagement: probe an endpoint, write engagement.yaml and intake.md."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from teardown.engagement import SETTINGS_FILE, write_atomic
from teardown.engines import detect
from teardown.errors import TargetError, UsageError
from teardown.http import fetch_json
from teardown.settings import parse_settings
from teardown.workload.prompts import read_prompts

INTAKE = """# Intake: {client}

What the engineer and the client agree on before the first request is sent.

| question | answer |
| --- | --- |
| endpoint | {url} |
| engine, as probed | {engine} |
| model | {model} |
| contact on the client's side |  |
| who may restart the server, and when (`access.restart`, `limits.window`) |  |
| may metrics and logs be read (`access.metrics`, `access.logs`) |  |
| the promise to users (`promises`) |  |
| what counts as success (`goal`) |  |
| what a GPU hour costs, and since when (`prices`) |  |
| load that the stack must never see (`limits.max_requests_per_s`, `limits.stop_if`) |  |
| out of scope |  |
"""


def begin(
    folder: Path, url: str, model: str | None, prompts: Path | None, client: str | None
) -> list[str]:
    """Write engagement.yaml and intake.md into `folder`; return the paths that were written.

    UsageError when an engagement is there already, TargetError when `url` does not answer.
    """
    if (folder / SETTINGS_FILE).exists():
        raise UsageError(f"{folder} holds an engagement already; edit its {SETTINGS_FILE}")
    served = served_models(url)
    chosen = model or served[0]
    if chosen not in served:
        raise TargetError(f"{url} serves {', '.join(served)}, not {chosen!r}")
    engine = engine_at(url)
    document: dict[str, Any] = {
        "client": client or folder.resolve().name,
        "access": {"metrics": "read", "logs": "none", "host": "none", "restart": "never"},
        "target": {"kind": "endpoint", "engine": engine, "url": url, "model": chosen},
        "workloads": [],
        "promises": {"ttft_s": {"p95": 1.0}, "attainment": 0.95},
        "goal": {"metric": "ttft_p50", "at_least": 1.2},
    }
    if prompts is not None:
        found = read_prompts(prompts)
        document["workloads"] = [
            {
                "name": "chats",
                "kind": "closed",
                "prompts": "prompts.jsonl",
                "concurrency": min(8, len({p.session for p in found})),
            }
        ]
        _copy(prompts, folder / "prompts.jsonl")
    write_settings(folder, document)
    intake = INTAKE.format(client=document["client"], url=url, engine=engine, model=chosen)
    write_atomic(folder / "intake.md", intake)
    return [str(folder / SETTINGS_FILE), str(folder / "intake.md")]


def begin_for_measure(folder: Path, options: dict[str, Any]) -> None:
    """Write an engagement.yaml for `measure --url`, unless the folder has one."""
    if (folder / SETTINGS_FILE).exists():
        raise UsageError(
            f"{folder} has an engagement.yaml, which says what to measure; leave out --url, "
            "or name a new folder"
        )
    missing = [name for name in ("prompts", "num_requests") if not options.get(name)]
    if missing:
        flags = ", ".join(
            {"prompts": "--prompts", "num_requests": "--requests"}[m] for m in missing
        )
        raise UsageError(f"measure --url also needs {flags}")
    url = str(options["url"])
    served = served_models(url)
    model = options.get("model") or served[0]
    if model not in served:
        raise TargetError(f"{url} serves {', '.join(served)}, not {model!r}")
    read_prompts(options["prompts"])
    _copy(options["prompts"], folder / "prompts.jsonl")
    load = {
        "name": "load",
        "kind": "closed",
        "prompts": "prompts.jsonl",
        "concurrency": options["concurrency"],
        "requests": options["num_requests"],
        "max_tokens": options["max_tokens"],
        "regime": options.get("regime") or "cold",
    }
    write_settings(
        folder,
        {
            "client": folder.resolve().name,
            "access": {"metrics": "read", "logs": "none", "host": "none", "restart": "never"},
            "target": {
                "kind": "endpoint",
                "engine": engine_at(url),
                "url": url,
                "model": model,
            },
            "workloads": [load],
        },
    )


def write_settings(folder: Path, document: dict[str, Any]) -> None:
    """Write `document` as engagement.yaml, after reading it as the kit will."""
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    parse_settings(text)
    write_atomic(folder / SETTINGS_FILE, text)


def served_models(url: str) -> list[str]:
    """Return the models that `url` serves; TargetError when it does not answer as OpenAI's API."""
    if not url.rstrip("/").endswith("/v1"):
        raise UsageError(f"{url!r} must end in /v1, as OpenAI clients expect")
    answer = fetch_json(f"{url.rstrip('/')}/models")
    models = answer.get("data") if isinstance(answer, dict) else None
    names = [m["id"] for m in models or [] if isinstance(m, dict) and "id" in m]
    if not names:
        raise TargetError(f"{url}/models lists no model; is this an OpenAI-compatible server?")
    return names


def engine_at(url: str) -> str:
    """Return the name of the engine at `url`, or `auto` where it is not recognised."""
    try:
        return detect(url)[1].engine
    except TargetError:
        return "auto"


def _copy(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    if source.resolve() != destination.resolve():
        shutil.copyfile(source, destination)
