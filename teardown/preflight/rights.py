"""What engagement.yaml grants and asks for: rights, and the prompts of every workload."""

from pathlib import Path

import msgspec

from teardown.engagement import Engagement
from teardown.errors import TeardownError
from teardown.preflight.finding import Finding
from teardown.settings import Access, Settings
from teardown.workload.prompts import read_prompts

COSTS = {
    "metrics": "without the engine's metrics, waiting cannot be told from execution: confidence is "
    "lower and most causes cannot be named",
    "logs": "without the engine's log, options that its pages do not show cannot be read back",
    "host": "without the host, a starved CPU cannot be told from a slow engine",
    "restart": "without restarts nothing is tried: the plan and its predictions are the product",
}


def rights(access: Access) -> list[Finding]:
    """Return what each missing right costs."""
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


def workloads(engagement: Engagement, settings: Settings) -> list[Finding]:
    """Read the prompts of every workload; fail where they cannot be read or none is named."""
    findings = []
    for load in settings.workloads:
        name = f"workload {load.name}"
        if load.prompts is None:
            findings.append(Finding(name=name, level="ok", text="the kit makes its prompts"))
            continue
        try:
            found = read_prompts(engagement.prompts_path(load.prompts))
        except TeardownError as error:
            findings.append(Finding(name=name, level="fail", text=str(error)))
            continue
        text = f"{len(found)} prompts in {len({p.session for p in found})} sessions"
        findings.append(Finding(name=name, level="ok", text=text))
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


def largest_concurrency(settings: Settings) -> int:
    """Return the most requests that any workload has in flight by its own words."""
    asked = [1]
    for load in settings.workloads:
        keys = msgspec.to_builtins(load)
        asked += [keys.get("concurrency") or 1, keys.get("concurrency_to") or 1]
        asked += keys.get("concurrencies") or []
    return max(asked)


def local_tokenizer(settings: Settings, engagement: Engagement) -> str | None:
    """Return the name of the model's own tokenizer on this host; None where there is none."""
    model = settings.target.launch.model if settings.target.launch else None
    if model is None:
        return None
    for path in (engagement.folder / Path(model).expanduser(), Path(model).expanduser()):
        if path.is_file() and path.suffix == ".gguf":
            return path.name
        if (path / "tokenizer.json").is_file():
            return f"{path.name}/tokenizer.json"
    return None
