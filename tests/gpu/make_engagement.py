"""Write the first GPU engagement: vLLM with an 8B dummy model, served eagerly eight at a time.

    python make_engagement.py DIR MODEL_DIR

Random words of the dummy model's vocabulary, one token each: 32 users, 5 unrelated prompts each.
"""

import json
import random
import sys
from pathlib import Path

import yaml

NUM_USERS, TURNS, PROMPT_WORDS, OUTPUT_TOKENS = 32, 5, 320, 64
NUM_MAILS = 96


def main(folder: Path, model: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(20261201)
    write_prompts(folder / "chats.jsonl", NUM_USERS * TURNS, "chat", draw)
    write_prompts(folder / "mails.jsonl", NUM_MAILS, "mail", draw)
    equal_work = {"temperature": 0, "ignore_eos": True}
    document = {
        "client": "Dummy 8B on one H200",
        "target": {
            "kind": "local",
            "engine": "vllm",
            "model": "dummy-8b",
            "launch": {
                "with": "vllm",
                "model": str(model),
                "options": {
                    "load-format": "dummy",
                    "enforce-eager": True,
                    "max-num-seqs": 8,
                    "max-model-len": 8192,
                },
            },
        },
        "workloads": [
            {
                "name": "chats",
                "kind": "closed",
                "prompts": "chats.jsonl",
                "concurrency": NUM_USERS,
                "extra_body": equal_work,
            },
            {
                "name": "mails",
                "kind": "open",
                "prompts": "mails.jsonl",
                "rate_per_s": 5.0,
                "requests": NUM_MAILS,
                "extra_body": equal_work,
            },
        ],
        "promises": {"ttft_s": {"p95": 1.0}, "attainment": 0.95},
        "goal": {"metric": "ttft_p50", "at_least": 1.5, "accuracy": "no_loss"},
        "budgets": {"trials": 2, "pairs": 4, "minutes": 25},
    }
    (folder / "engagement.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


def write_prompts(path: Path, number: int, kind: str, draw: random.Random) -> None:
    lines = []
    for i in range(number):
        words = " ".join(f"w{draw.randrange(3, 1000)}" for _ in range(PROMPT_WORDS))
        line = {
            "messages": [{"role": "user", "content": words}],
            "session": f"{kind}-{i}",
            "max_tokens": OUTPUT_TOKENS,
        }
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
