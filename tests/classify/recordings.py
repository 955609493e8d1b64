"""A small reader of `tests/recordings`, for tests alone. It never opens meta.json."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from teardown.classify.data import HardwareFacts, ModelFacts, RunData, Scrape
from teardown.classify.facts import facts_of_config
from teardown.engines import vllm_log
from teardown.engines.vllm import Vllm
from teardown.records import Request, Run, Segment, Stack, Validity

FOLDER = Path(__file__).parent.parent / "recordings" / "vllm-0.26-h200"
NAMES = sorted(p.name for p in FOLDER.iterdir() if p.is_dir())
# What a copy moves on that machine; the recordings' own facts page gives it.
H200 = HardwareFacts(
    device="gpu",
    name="H200",
    read_bandwidth_bytes_per_s=4.3e12,
    how="measured",
    source="copy probe",
)


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _requests(folder: Path) -> list[Request]:
    clients = [json.loads(_text(p)) for p in sorted(folder.glob("client*.json.gz"))]
    zero = min(min(client["start_times"]) for client in clients)
    return [r for number, client in enumerate(clients) for r in _of(client, number, zero)]


def _of(client: dict[str, Any], number: int, zero: float) -> list[Request]:
    found = []
    for row, ttft in enumerate(client["ttfts"]):
        gaps = client["itls"][row]
        sent = client["start_times"][row] - zero
        chunks = [sent + ttft]
        for gap in gaps:
            chunks.append(chunks[-1] + gap)
        found.append(
            Request(
                request_id=f"{number}-{row}",
                status="error" if client["errors"][row] else "ok",
                sent_s=sent,
                ttft_s=ttft,
                e2e_s=ttft + sum(gaps),
                prompt_tokens=client["input_lens"][row],
                output_tokens=client["output_lens"][row],
                chunk_s=chunks,
            )
        )
    return found


@cache
def recorded(name: str) -> RunData:
    folder = FOLDER / name
    engine = Vllm()
    scrapes = []
    for line in _text(folder / "metrics.jsonl.gz").splitlines():
        row = json.loads(line)
        if "text" in row:
            scrapes.append(Scrape(row["t"], engine.counters(row["text"])))
    for edge, at in (("before", scrapes[0].unix_s - 1), ("after", scrapes[-1].unix_s + 1)):
        page = _text(folder / f"metrics_{edge}.txt.gz")
        scrapes.append(Scrape(at, engine.counters(page)))
    log = _text(folder / "startup.log.gz")
    options = vllm_log.options(log)
    config = json.loads((FOLDER / "model_config.json").read_text())
    model: ModelFacts = facts_of_config(config, options)
    run = Run(
        run=name,
        stack="before",
        workload="recorded",
        regime="production",
        salt="",
        seed=0,
        schedule_sha256="",
        target=Stack(
            engine="vllm",
            launcher="external",
            version="0.26.0",
            model="dummy8b",
            served_model="m",
            options=vllm_log.given(log),
            effective=options,
        ),
        segments=[
            Segment(
                started_unix_s=scrapes[0].unix_s, ended_unix_s=scrapes[-3].unix_s, ended="complete"
            )
        ],
        validity=Validity(verdict="valid", reasons=[], checks=[]),
        summary=None,
    )
    return RunData(
        run=run,
        requests=_requests(folder),
        scrapes={"http://engine/metrics": scrapes},
        model=model,
        hardware=H200,
        reusable_tokens_ratio=0.0,
    )


def truth(name: str) -> dict[str, Any]:
    """The label; for the comparison in the test, after the answer is there."""
    label: dict[str, Any] = json.loads((FOLDER / name / "meta.json").read_text())["label"]
    return label
