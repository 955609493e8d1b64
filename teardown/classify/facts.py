"""What a model costs to read, from its own files: a GGUF header or a Hugging Face config.json.

Bytes that are read per decode step, not bytes that are resident: the token embedding is looked up,
not streamed, unless it doubles as the output matrix. Formulas: docs of the step model (diagnosis
3.1). A model whose layers these formulas do not cover yields None with a reason, never a guess.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teardown.classify.data import ModelFacts
from teardown.errors import FeatureMissing, UsageError
from teardown.records import Options

DTYPE_BYTES: dict[str, float] = {
    "bfloat16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "float32": 4.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
}
# Bytes per cached value: ggml block bytes over block values (ggml-common.h).
CACHE_BYTES: dict[str, float] = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
# Cache layouts that are not keys and values per head and token.
UNCOVERED_KEYS = ("kv_lora_rank", "ssm_state_size", "mamba_d_state", "linear_num_key_heads")
UNCOVERED_GGUF = ("attention.kv_lora_rank", "ssm.state_size", "attention.key_length_mla")


def facts_of_gguf(path: Path, options: Options | None = None) -> ModelFacts:
    """Read the header of a GGUF file; `options` may name cache-type-k and cache-type-v.

    UsageError when it is not one; FeatureMissing without the package `gguf`.
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise FeatureMissing("reading a GGUF file needs the package: pip install gguf") from error
    try:
        reader = GGUFReader(str(path))
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(f"{path} cannot be read as GGUF: {error}") from error
    fields = {name: field.contents for name, field in reader.fields.items()
              if not name.startswith("tokenizer.")}  # fmt: skip
    values = {name: read() for name, read in fields.items()}
    arch = str(values.get("general.architecture", ""))
    sizes = {tensor.name: float(tensor.n_bytes) for tensor in reader.tensors}
    experts = sum(size for name, size in sizes.items() if "_exps." in name)
    is_tied = "output.weight" not in sizes
    resident = sum(sizes.values())
    embedding = 0.0 if is_tied else sizes.get("token_embd.weight", 0.0)
    per_token, reason = _gguf_cache(values, arch, options or {})
    window = values.get(f"{arch}.attention.sliding_window")
    if window:
        per_token, reason = None, f"{arch} mixes windowed layers, which are not told apart yet"
    return ModelFacts(
        source=path.name,
        num_layers=_whole(values.get(f"{arch}.block_count")),
        num_parameters=int(sum(int(tensor.n_elements) for tensor in reader.tensors)),
        weights_streamed_bytes=resident - experts - embedding,
        expert_bytes=experts,
        num_experts=_whole(values.get(f"{arch}.expert_count")) or 0,
        num_experts_used=_whole(values.get(f"{arch}.expert_used_count")) or 0,
        kv_bytes_per_token=per_token,
        reasons={"kv_bytes_per_token": reason} if reason else {},
    )


def _gguf_cache(
    values: Mapping[str, Any], arch: str, options: Options
) -> tuple[float | None, str | None]:
    if any(f"{arch}.{key}" in values for key in UNCOVERED_GGUF):
        return None, f"the cache of {arch} is not keys and values per head"
    layers = _whole(values.get(f"{arch}.block_count"))
    heads = values.get(f"{arch}.attention.head_count")
    kv_heads = values.get(f"{arch}.attention.head_count_kv", heads)
    width = _whole(values.get(f"{arch}.embedding_length"))
    if not layers or not isinstance(heads, int) or kv_heads is None or not width:
        return None, "the header names no layers, heads or width"
    by_layer = kv_heads if isinstance(kv_heads, list) else [kv_heads] * layers
    key = _whole(values.get(f"{arch}.attention.key_length")) or width // heads
    value = _whole(values.get(f"{arch}.attention.value_length")) or width // heads
    kinds = [str(options.get(f"cache-type-{side}") or "f16").lower() for side in "kv"]
    for kind in kinds:
        if kind not in CACHE_BYTES:
            return None, f"the size of cache type {kind} is not known"
    per_head = key * CACHE_BYTES[kinds[0]] + value * CACHE_BYTES[kinds[1]]
    return float(sum(by_layer)) * per_head, None


def facts_of_config(
    config: Mapping[str, Any], options: Options | None = None, source: str = "config.json"
) -> ModelFacts:
    """Read a dense model with grouped queries from a Hugging Face config; else None with reasons.

    `options` may name kv-cache-dtype (vLLM's and SGLang's word; auto is the model's type).
    """
    layers = _whole(config.get("num_hidden_layers"))
    reason = _why_not_dense(config)
    if reason is not None or not layers:
        why = reason or "config.json names no layers"
        return ModelFacts(
            source=source,
            num_layers=layers,
            reasons={"weights_streamed_bytes": why, "kv_bytes_per_token": why},
        )
    hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    heads = int(config["num_attention_heads"])
    kv_heads = int(config.get("num_key_value_heads") or heads)
    dim = int(config.get("head_dim") or hidden // heads)
    attention = hidden * dim * (2 * heads + 2 * kv_heads)
    layer = attention + 3 * hidden * inner + 2 * hidden
    head = int(config["vocab_size"]) * hidden
    tied = bool(config.get("tie_word_embeddings", False))
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "").removeprefix("torch.")
    each = DTYPE_BYTES.get(dtype)
    reasons: dict[str, str] = {}
    if each is None:
        reasons["weights_streamed_bytes"] = f"the weights' type {dtype or 'is not named'}"
    cache, unsized = _cache_bytes(options or {}, each)
    if unsized:
        reasons["kv_bytes_per_token"] = unsized
    return ModelFacts(
        source=source,
        num_layers=layers,
        num_parameters=layers * layer + head * (1 if tied else 2) + hidden,
        weights_streamed_bytes=None if each is None else each * (layers * layer + head + hidden),
        kv_bytes_per_token=None if cache is None else 2.0 * layers * kv_heads * dim * cache,
        reasons=reasons,
    )


def _why_not_dense(config: Mapping[str, Any]) -> str | None:
    """Return why the formulas for a dense decoder do not fit; None when they do."""
    needed = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    absent = [key for key in needed if not isinstance(config.get(key), int)]
    if absent:
        return f"config.json names no {', '.join(absent)}"
    if any(config.get(key) for key in UNCOVERED_KEYS):
        return "its cache is not keys and values per head"
    if any(config.get(k) for k in ("num_experts", "num_local_experts", "n_routed_experts")):
        return "it routes to experts, which config.json alone does not size"
    if config.get("quantization_config"):
        return "its weights are quantised; their size is in the weight files"
    kinds = set(config.get("layer_types") or [])
    if config.get("use_sliding_window") or kinds - {"full_attention"}:
        return "it mixes windowed layers, which are not told apart yet"
    return None


def _cache_bytes(options: Options, each: float | None) -> tuple[float | None, str | None]:
    kind = str(options.get("kv-cache-dtype") or "auto")
    if kind == "auto":
        return each, None if each else "the model's type, which the cache follows, is not known"
    if kind not in DTYPE_BYTES:
        return None, f"the size of cache type {kind} is not known"
    return DTYPE_BYTES[kind], None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
