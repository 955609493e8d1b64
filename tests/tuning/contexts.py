"""Contexts that a plan may meet: made up, but with the numbers of real runs."""

from collections.abc import Mapping
from dataclasses import replace

from teardown.records import (
    Attribution,
    Options,
    Quantiles,
    Run,
    Stack,
    Summary,
    Validity,
    Window,
)
from teardown.settings import Goal
from tuning.context import PlanContext

VALID = Validity(verdict="valid", reasons=[], checks=[])


def quantiles(mean: float | None) -> Quantiles:
    return Quantiles(n=24, mean=mean, p50=None, p90=None, p95=None, p99=None, withheld={})


def run_of(stack: Stack, ttft_s: float, e2e_s: float, tpot_s: float) -> Run:
    window = Window(
        start_s=0.0,
        end_s=40.0,
        num_requests=24,
        num_failed=0,
        requests_per_s=0.6,
        output_tokens_per_s=19.0,
        prompt_tokens=7200,
        cached_tokens=0,
        output_tokens=768,
        ttft_s=quantiles(ttft_s),
        tpot_s=quantiles(tpot_s),
        e2e_s=quantiles(e2e_s),
        client_wait_s=quantiles(None),
        max_gap_s=quantiles(None),
        attainment=None,
        goodput_per_s=None,
    )
    return Run(
        run="r0001-before-chat",
        stack="before",
        workload="chat",
        regime="cold",
        salt="x",
        seed=1,
        schedule_sha256="0" * 64,
        target=stack,
        segments=[],
        validity=VALID,
        summary=Summary(num_by_status={"ok": 24}, plateau=window, whole=window),
    )


def attribution_of(shares: Mapping[str, float], causes: Mapping[str, float]) -> Attribution:
    return Attribution(
        run="r0001-before-chat",
        validity=VALID,
        time_class=None,
        cause=None,
        confidence=0.8,
        abstained=False,
        shares=dict(shares),
        overshoot=0.0,
        evidence=[],
        ruled_out=[],
        would_disprove=[],
        causes=dict(causes),
        notes=[],
    )


def context_of(
    engine: str,
    options: Options,
    *,
    shares: Mapping[str, float],
    causes: Mapping[str, float],
    concurrency: int = 8,
    reusable: float | None = 0.8,
    cached: float | None = 0.0,
    ttft_s: float = 11.6,
    e2e_s: float = 13.3,
    tpot_s: float = 0.022,
    effective: Options | None = None,
    goal: Goal | None = None,
    gpu: str | None = None,
) -> PlanContext:
    stack = Stack(
        engine=engine,
        launcher=engine,
        version=None,
        model="m.gguf",
        served_model="m",
        options=options,
        effective=effective or {},
    )
    return PlanContext(
        run=run_of(stack, ttft_s, e2e_s, tpot_s),
        attribution=attribution_of(shares, causes),
        stack=stack,
        concurrency=concurrency,
        num_cpus=2,
        prompt_tokens_p50=300,
        prompt_tokens_p99=380,
        output_tokens_p50=32,
        output_tokens_max=32,
        max_context_tokens=420,
        reusable_tokens_ratio=reusable,
        cached_tokens_ratio=cached,
        goal=goal or Goal(),
        gpu=gpu,
        kv_bytes_per_token=23040.0,
    )


MISCONFIGURED_LLAMA = context_of(
    "llama.cpp",
    {
        "parallel": 1,
        "ctx-size": 8192,
        "batch-size": 64,
        "ubatch-size": 64,
        "cache-prompt": False,
        "cache-ram": 0,
        "cache-type-k": "f16",
        "cache-type-v": "f16",
        "threads": 1,
    },
    shares={"scheduling": 0.8, "prefill": 0.12, "decode": 0.08},
    causes={"batch_cap": 0.5, "prefix_cache_miss": 0.4},
)
GOOD_LLAMA = context_of(
    "llama.cpp",
    {"parallel": 8, "kv-unified": True, "ctx-size": 4096, "threads": 2, "cache-ram": 1024},
    shares={"decode": 0.7, "prefill": 0.3},
    causes={"weights_bandwidth": 0.5},
    cached=0.78,
    ttft_s=1.7,
    e2e_s=6.0,
    tpot_s=0.14,
)
EAGER_VLLM = context_of(
    "vllm",
    {"enforce-eager": True, "max-num-seqs": 8},
    shares={"scheduling": 0.5, "host": 0.3, "decode": 0.2},
    causes={"batch_cap": 0.5, "eager_mode": 0.3},
    concurrency=64,
    ttft_s=5.3,
    e2e_s=6.0,
    tpot_s=0.02,
    gpu="H200",
)
GOOD_VLLM = context_of(
    "vllm",
    {"max-num-seqs": 256, "max-num-batched-tokens": 8192},
    shares={"decode": 0.8, "prefill": 0.2},
    causes={"weights_bandwidth": 0.6},
    concurrency=64,
    cached=0.79,
    ttft_s=0.1,
    e2e_s=2.0,
    gpu="H200",
)
PYTHON_LLAMA = context_of(
    "llama-cpp-python",
    {"n_ctx": 8192, "n_threads": 4},
    shares={"host": 0.9, "decode": 0.1},
    causes={"serialised_server": 0.9},
)
SILENT = replace(
    MISCONFIGURED_LLAMA,
    run=replace(MISCONFIGURED_LLAMA.run, summary=None),
    reusable_tokens_ratio=None,
    cached_tokens_ratio=None,
    kv_bytes_per_token=None,
)
UNKNOWN_ENGINE = context_of("sglang", {}, shares={}, causes={})

CONTEXTS = {
    "misconfigured llama.cpp": MISCONFIGURED_LLAMA,
    "well-configured llama.cpp": GOOD_LLAMA,
    "eager vLLM": EAGER_VLLM,
    "well-configured vLLM": GOOD_VLLM,
    "llama-cpp-python": PYTHON_LLAMA,
    "nothing known": SILENT,
    "another engine": UNKNOWN_ENGINE,
}
