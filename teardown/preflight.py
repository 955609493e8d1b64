"""`doctor`: can this stack be measured, and what does each missing right cost."""

import importlib.metadata
import json
import resource
import shutil
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from teardown.begin import engine_at, served_models
from teardown.engagement import Engagement
from teardown.errors import TargetError, TeardownError
from teardown.settings import Access, Settings
from teardown.targets import make_target
from teardown.workload.prompts import read_prompts

PACKAGES = ("teardown", "kv_quant", "tuning", "iac", "runbooks", "reports")
DISTRIBUTION = "teardown-kit"
# The smallest free space at which a run of a few thousand requests still fits, bytes.
DISK_BYTES = 200_000_000
COSTS = {
    "metrics": "without the engine's metrics, waiting cannot be told from execution: confidence is "
    "lower and most causes cannot be named",
    "logs": "without the engine's log, options that its pages do not show cannot be read back",
    "host": "without the host, a starved CPU cannot be told from a slow engine",
    "restart": "without restarts nothing is tried: the plan and its predictions are the product",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check of the preflight."""

    name: str
    level: Literal["ok", "warn", "fail"]
    text: str
    fix: str = ""


def examine(folder: Path | None, url: str | None, model: str | None) -> list[Finding]:
    """Return every check on this host and on the stack; a failed one does not stop the others."""
    findings = [_names(), _files(), _disk(folder or Path())]
    if folder is None:
        return [*findings, *_endpoint(str(url), model)]
    engagement = Engagement(folder)
    settings = engagement.settings()
    findings += _rights(settings.access)
    findings += _prompts(engagement, settings)
    target = None
    try:
        target = make_target(settings, engagement)
        target.start()
        findings.append(_stack(target.read_back()))
        findings += _endpoint(target.url, target.model)
        findings.append(_metrics(settings, target.metrics_urls()))
    except TeardownError as error:
        findings.append(Finding(name="stack", level="fail", text=str(error)))
    finally:
        if target is not None:
            target.stop()
    return findings


def render(findings: list[Finding]) -> str:
    """Return the checks for a terminal."""
    mark = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
    lines = []
    for f in findings:
        lines.append(f"{mark[f.level]}  {f.name}: {f.text}")
        if f.fix:
            lines.append(f"      {f.fix}")
    return "\n".join(lines)


def _names() -> Finding:
    """Fail when another distribution owns one of the six import names."""
    owners = importlib.metadata.packages_distributions()
    foreign = {name: [o for o in owners.get(name, []) if o != DISTRIBUTION] for name in PACKAGES}
    taken = {name: o for name, o in foreign.items() if o}
    if not taken:
        return Finding(name="import names", level="ok", text="all six packages are the kit's own")
    name, others = next(iter(taken.items()))
    return Finding(
        name="import names",
        level="fail",
        text=f"the distribution {others[0]!r} also installs a package called {name!r}",
        fix="install the kit into a virtual environment of its own",
    )


def _files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1024:
        return Finding(
            name="file descriptors",
            level="warn",
            text=f"the limit is {soft}; each request in flight needs one",
            fix="ulimit -n 65536",
        )
    return Finding(name="file descriptors", level="ok", text=f"limit {soft}")


def _disk(folder: Path) -> Finding:
    there = next((p for p in (folder, *folder.resolve().parents) if p.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    level: Literal["ok", "fail"] = "ok" if free > DISK_BYTES else "fail"
    return Finding(name="disk", level=level, text=f"{free / 1e9:.1f} GB free at {there}")


def _rights(access: Access) -> list[Finding]:
    missing = {
        "metrics": access.metrics == "none",
        "logs": access.logs == "none",
        "host": access.host == "none",
        "restart": access.restart == "never",
    }
    return [
        Finding(name=f"access.{name}", level="warn", text=f"not granted: {COSTS[name]}")
        if denied
        else Finding(name=f"access.{name}", level="ok", text="granted")
        for name, denied in missing.items()
    ]


def _prompts(engagement: Engagement, settings: Settings) -> list[Finding]:
    findings = []
    for load in settings.workloads:
        if load.prompts is None:
            text = "its prompts are made by the kit"
            findings.append(Finding(name=f"workload {load.name}", level="ok", text=text))
            continue
        try:
            found = read_prompts(engagement.prompts_path(load.prompts))
        except TeardownError as error:
            findings.append(Finding(name=f"workload {load.name}", level="fail", text=str(error)))
            continue
        text = f"{len(found)} prompts in {len({p.session for p in found})} sessions"
        findings.append(Finding(name=f"workload {load.name}", level="ok", text=text))
    if not settings.workloads:
        findings.append(
            Finding(
                name="workloads",
                level="fail",
                text="engagement.yaml names none",
                fix="add one under `workloads:` with the client's own prompts",
            )
        )
    return findings


def _stack(stack: Any) -> Finding:
    return Finding(
        name="stack",
        level="ok",
        text=f"{stack.engine} {stack.version or '(version unknown)'} serves "
        f"{stack.served_model}; {len(stack.effective)} options read back",
    )


def _metrics(settings: Settings, urls: list[str]) -> Finding:
    if settings.access.metrics == "none":
        return Finding(name="metrics", level="warn", text="not granted")
    if not urls:
        return Finding(name="metrics", level="warn", text="the engine shows no metrics page")
    return Finding(name="metrics", level="ok", text=f"{len(urls)} page(s): {urls[0]}")


def _endpoint(url: str, model: str | None) -> list[Finding]:
    try:
        served = served_models(url)
    except TeardownError as error:
        return [Finding(name="endpoint", level="fail", text=str(error))]
    chosen = model or served[0]
    if chosen not in served:
        return [
            Finding(
                name="model", level="fail", text=f"{url} serves {', '.join(served)}, not {chosen!r}"
            )
        ]
    findings = [
        Finding(name="endpoint", level="ok", text=f"{url} serves {', '.join(served)}"),
        Finding(name="engine", level="ok", text=f"recognised as {engine_at(url)}"),
    ]
    try:
        return findings + _stream(url, chosen)
    except TargetError as error:
        return [*findings, Finding(name="streaming", level="fail", text=str(error))]


def _stream(url: str, model: str) -> list[Finding]:
    """Ask for twelve tokens as a stream; say whether it streams and whether usage is reported."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Count from one to ten."}],
        "max_tokens": 12,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    request = urllib.request.Request(
        f"{url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    started = time.monotonic()
    chunks: list[float] = []
    has_usage = False
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            for line in answer:
                if line.startswith(b"data:") and b"[DONE]" not in line:
                    document = json.loads(line[5:])
                    has_usage = has_usage or bool(document.get("usage"))
                    if document.get("choices"):
                        chunks.append(time.monotonic() - started)
    except (OSError, ValueError) as error:
        raise TargetError(f"a streamed request to {url} failed: {error}") from error
    streams = len(chunks) > 1
    return [
        Finding(
            name="streaming",
            level="ok" if streams else "warn",
            text=f"{len(chunks)} chunks, the first after {chunks[0]:.2f} s"
            if chunks
            else "the answer had no chunks",
        ),
        Finding(
            name="usage",
            level="ok" if has_usage else "warn",
            text="token counts are reported in the stream"
            if has_usage
            else "no token counts in the stream: TPOT and tokens per second will be unknown",
        ),
    ]
