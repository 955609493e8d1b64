"""The number type of the KV cache: fewer bytes to read and to hold, for less exact answers."""

from typing import NamedTuple

from teardown.records import Candidate, Estimate, LeftAlone, Options
from tuning.context import PlanContext
from tuning.prediction import Phase, amdahl, unsupported


class KvType(NamedTuple):
    """One type: bits per value (block scales included), and what reading it costs at worst."""

    bits: float
    worst: float
    risk_of_answers: str


# Bits by block layout: q8_0 34 bytes, q4_0 18 bytes for 32 values (ggml-common.h, 2026-10).
# Worst: dequantising in attention; on two CPU cores q8_0 made a run slower, so below 1 (2026-11).
LLAMA_TYPES = {
    "q8_0": KvType(8.5, 0.7, "keys and values are rounded to 8 bits"),
    "q4_0": KvType(4.5, 0.6, "keys and values are rounded to 4 bits"),
}
# fp8 KV loses accuracy by model: vllm#38652 (MLA), #41343 (VL), verl#4435 (Qwen2.5), TRT-LLM#16916.
VLLM_TYPES = {"fp8": KvType(8.0, 0.9, "keys and values are rounded to 8-bit floats")}
FULL_BITS = 16.0
FULL_TYPES = ("f16", "bf16", "float16", "bfloat16", "auto", "f32")
# More requests than the pool holds: halving the bytes doubles the pool, preemption then ends.
UNSUPPORTED_HIGH = 1.2


class KvCache:
    """`cache-type-k` and `cache-type-v` of llama.cpp; `kv-cache-dtype` of vLLM."""

    name = "kv_cache"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return the smaller types; tempting ones too, for the oracle to judge."""
        if context.stack.engine == "llama.cpp":
            return [_llama(context, t) for t in LLAMA_TYPES if t not in _present(context)]
        present = str(context.option("kv-cache-dtype") or "auto")
        if context.stack.engine == "vllm" and present in FULL_TYPES:
            return [_vllm(context, t) for t in VLLM_TYPES]
        return []

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return the full-precision cache where reading it costs next to nothing."""
        if context.stack.engine == "llama.cpp":
            setting, value = "cache-type-k, cache-type-v", "/".join(_present(context))
        elif context.stack.engine == "vllm":
            setting, value = "kv-cache-dtype", str(context.option("kv-cache-dtype") or "auto")
        else:
            return []
        if context.share("kv_bandwidth") > 0.1 or context.cause("kv_capacity"):
            return []
        because = (
            f"reading the cache takes {context.share('kv_bandwidth'):.0%} of the time and the pool "
            "turns nobody away: a smaller type saves memory, not time; it stays unless a trial "
            "and the oracle say otherwise"
        )
        return [LeftAlone(setting=setting, value=value, because=because)]


def _present(context: PlanContext) -> tuple[str, str]:
    types = [str(context.option(f"cache-type-{side}") or "f16") for side in ("k", "v")]
    return types[0], types[1]


def _llama(context: PlanContext, name: str) -> Candidate:
    changes: Options = {"cache-type-k": name, "cache-type-v": name}
    if str(context.option("flash-attn") or "auto").lower() in ("off", "false", "0", "disabled"):
        changes["flash-attn"] = "auto"  # a quantised V needs it: llama.cpp refuses to start without
    k, v = _present(context)
    return _candidate(
        context,
        f"kv-{name}",
        changes,
        LLAMA_TYPES[name],
        undo=f"cache-type-k {k}, cache-type-v {v}",
    )


def _vllm(context: PlanContext, name: str) -> Candidate:
    return _candidate(
        context,
        f"kv-{name}",
        {"kv-cache-dtype": name},
        VLLM_TYPES[name],
        undo="kv-cache-dtype auto",
    )


def _candidate(
    context: PlanContext, candidate: str, changes: Options, kv_type: KvType, undo: str
) -> Candidate:
    supported = context.cause("kv_bandwidth") or context.cause("kv_capacity")
    held = ""
    if context.kv_bytes_per_token is not None:
        saved = context.kv_bytes_per_token * (1 - kv_type.bits / FULL_BITS)
        held = f", {saved / 1024:.1f} KiB less for each token held"
    return Candidate(
        candidate=candidate,
        title=f"Store the KV cache as {candidate.removeprefix('kv-')}",
        lever=KvCache.name,
        changes=changes,
        predicted=_prediction(context, kv_type),
        reason=f"{kv_type.bits:g} bits a value instead of {FULL_BITS:g}{held}",
        cause=("kv_bandwidth" if context.cause("kv_bandwidth") else "kv_capacity")
        if supported
        else None,
        risk="high" if kv_type.bits < 8 else "medium",
        changes_answers=kv_type.risk_of_answers,
        watch="the oracle; answers late in long contexts; time per token where dequantising costs",
        undo=undo,
    )


def _prediction(context: PlanContext, kv_type: KvType) -> Estimate:
    saved = 1 - kv_type.bits / FULL_BITS
    bandwidth = max(context.cause("kv_bandwidth"), context.share("kv_bandwidth")) * saved
    pool = context.cause("kv_capacity") * saved
    if bandwidth + pool <= 0:
        because = "the diagnosis finds no time in reading the cache and none lost to a full pool"
        return unsupported(kv_type.worst, 1.0, UNSUPPORTED_HIGH, because)
    phase: Phase = "before_first_token" if pool > bandwidth else "after_first_token"
    because = f"{saved:.0%} fewer bytes of cache to read and to hold"
    return amdahl(context, bandwidth + pool, phase, because, worst=kv_type.worst)
