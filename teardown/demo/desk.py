"""Write the demo engagement: the support desk's prompts and how its stack is served."""

import importlib.resources
from pathlib import Path

from teardown.begin import write_settings
from teardown.engagement import SETTINGS_FILE, Engagement, write_atomic
from teardown.engines.embedded import embedded_model
from teardown.errors import UsageError
from teardown.settings import load_settings

FILES = ("chats.jsonl", "mails.jsonl")
EQUAL_WORK = {"temperature": 0, "ignore_eos": True}


def write_desk(folder: Path, model: Path | None, *, tuned: bool) -> None:
    """Write engagement.yaml and the prompts into `folder`; keep those of a demo that was begun.

    UsageError when the folder holds another engagement.
    """
    if (folder / SETTINGS_FILE).exists():
        if load_settings(folder / SETTINGS_FILE).client != CLIENT:
            raise UsageError(f"{folder} holds another engagement; name a new folder for the demo")
        return
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a new folder for the demo")
    embedded_model(model)  # fetched or checked now, so that nothing is written when it is not there
    data = importlib.resources.files("teardown.demo")
    for name in FILES:
        write_atomic(Engagement(folder).folder / name, data.joinpath(name).read_bytes())
    options = AS_TUNED if tuned else AS_FOUND
    write_settings(
        folder,
        {
            "client": CLIENT,
            "target": {
                "kind": "local",
                "engine": "llama.cpp",
                "model": "smollm2",
                "launch": {
                    "with": "xllamacpp",
                    "model": str(model) if model else "smollm2",
                    "options": options,
                    # two threads that spin at barriers starve each other on a shared host
                    "env": {"OMP_WAIT_POLICY": "passive"},
                },
            },
            "workloads": [
                {
                    "name": "chats",
                    "kind": "closed",
                    "prompts": "chats.jsonl",
                    "concurrency": 8,
                    "extra_body": EQUAL_WORK,
                },
                {
                    "name": "mails",
                    "kind": "open",
                    "prompts": "mails.jsonl",
                    "rate_per_s": 0.5,
                    "requests": 12,
                    "extra_body": EQUAL_WORK,
                },
            ],
            "promises": {"ttft_s": {"p95": 4.0}, "attainment": 0.95},
            "goal": {"metric": "ttft_p50", "at_least": 1.2, "accuracy": "no_loss"},
            "budgets": {"trials": 6, "pairs": 4, "minutes": 10},
        },
    )


CLIENT = "Harbour Parcel support desk"
# How the desk's administrator set it up, by hand and by old advice.
AS_FOUND = {
    "parallel": 1,
    "ctx-size": 8192,
    "batch-size": 64,
    "ubatch-size": 64,
    "cache-prompt": False,
    "cache-ram": 0,
    "cache-type-k": "f16",
    "cache-type-v": "f16",
    "flash-attn": "on",
    "threads": 2,
}
AS_TUNED = AS_FOUND | {
    "parallel": 8,
    "kv-unified": True,
    "batch-size": 512,
    "ubatch-size": 512,
    "cache-prompt": True,
    "cache-ram": 256,
}
