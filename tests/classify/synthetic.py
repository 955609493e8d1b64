"""Runs with a known truth: requests laid out second by second, and pages that agree with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from teardown.classify.data import HardwareFacts, ModelFacts, RunData, Scrape
from teardown.engines.protocol import Counters
from teardown.records import Options, Request, Run, ServerTimings, Stack, Validity
from teardown.records.run import ValidityReason

MODEL = ModelFacts(
    source="synthetic",
    num_layers=10,
    num_parameters=10**9,
    weights_streamed_bytes=1e9,
    kv_bytes_per_token=1e5,
)
GPU = HardwareFacts(
    device="gpu", name="G", read_bandwidth_bytes_per_s=1e12, how="measured", source="probe"
)
CPU = replace(GPU, device="cpu", name="C")


def request(
    number: int,
    sent: float,
    *,
    waiting: float = 0.0,
    prefill: float = 0.1,
    tokens: int = 50,
    step: float = 0.001,
    prompt: int = 100,
    cached: int | None = 0,
    stalls: Mapping[int, float] | None = None,
    late: float | None = None,
    timed: bool = True,
) -> Request:
    """One answer: waiting, then prefill, then `tokens` at `step`, with stalls before some."""
    ttft = waiting + prefill
    chunks = [sent + ttft]
    for token in range(1, tokens):
        chunks.append(chunks[-1] + step + (stalls or {}).get(token, 0.0))
    timings = ServerTimings(
        prefill_s=prefill,
        decode_s=chunks[-1] - chunks[0],
        prefill_tokens=prompt - (cached or 0),
        decode_tokens=tokens,
        cached_tokens=cached,
    )
    return Request(
        request_id=str(number),
        status="ok",
        intended_s=None if late is None else sent - late,
        sent_s=sent,
        ttft_s=ttft,
        e2e_s=chunks[-1] - sent,
        prompt_tokens=prompt,
        output_tokens=tokens,
        cached_tokens=cached if timed else None,
        chunk_s=chunks,
        server=timings if timed else None,
    )


def data(
    requests: Sequence[Request],
    *,
    engine: str = "llama.cpp",
    options: Options | None = None,
    model: ModelFacts | None = MODEL,
    hardware: HardwareFacts | None = GPU,
    verdict: Any = "valid",
    reasons: Sequence[ValidityReason] = (),
    **more: Any,
) -> RunData:
    target = Stack(
        engine=engine,
        launcher="external",
        version=None,
        model="m",
        served_model="m",
        options=options or {},
    )
    run = Run(
        run="synthetic",
        stack="before",
        workload="w",
        regime="cold",
        salt="",
        seed=0,
        schedule_sha256="",
        target=target,
        segments=[],
        validity=Validity(verdict=verdict, reasons=list(reasons), checks=list(reasons)),
        summary=None,
    )
    return RunData(run=run, requests=requests, model=model, hardware=hardware, **more)


def queue(num_slots: int, num_clients: int, rounds: int, **kind: Any) -> list[Request]:
    """A closed loop of `num_clients` over `num_slots`: waves that each take one request's time."""
    one = request(0, 0.0, **kind).e2e_s or 0.0
    found: list[Request] = []
    free = [0.0] * num_slots
    ready = [0.0] * num_clients
    for number in range(rounds * num_clients):
        client = min(range(num_clients), key=lambda c: ready[c])
        slot = min(range(num_slots), key=lambda s: free[s])
        waiting = max(0.0, free[slot] - ready[client])
        found.append(request(number, ready[client], waiting=waiting, **kind))
        free[slot] = ready[client] = ready[client] + waiting + one
    return found


def page(requests: Sequence[Request], at: float, **gauges: float) -> Scrape:
    """The sums that a vLLM page would show once `requests` are done, at unix second `at`."""
    timings = [r.server for r in requests if r.server]
    prefill = sum(t.prefill_s or 0.0 for t in timings)
    ttft = sum(r.ttft_s or 0.0 for r in requests)
    return Scrape(
        at,
        Counters(
            prompt_tokens=float(sum(r.prompt_tokens or 0 for r in requests)),
            cached_tokens=float(sum(r.cached_tokens or 0 for r in requests)),
            output_tokens=float(sum(r.output_tokens or 0 for r in requests)),
            prefill_s=prefill,
            queue_s=ttft - prefill,
            requests=float(len(requests)),
            preemptions=gauges.pop("preemptions", 0.0),
            **gauges,
        ),
    )
