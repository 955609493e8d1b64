"""vLLM's start-up log: version, the options that it runs, and why it did not start.

Read on 0.26.0. Two lines carry nearly all: `non-default args: {...}` (what was given) and
`Initializing a V1 LLM engine (vX) with config: ...` (what came of it, after its own changes).
"""

import ast
import re

from teardown.records import Options

_PREFIX = re.compile(r"^\(\w+ pid=\d+\) ?")
_GIVEN = re.compile(r"non-default args: (\{.*\})")
_CONFIG = re.compile(r"Initializing an? (?:V1 )?LLM engine \(v([^)]+)\) with config: (.*)")
_BANNER = re.compile(r"\bversion (\d+\.\S+)")
_POOL_TOKENS = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
_BUDGET = re.compile(r"max_num_batched_tokens=(\d+)")
_SIZES = re.compile(r"'cudagraph_capture_sizes': \[([\d, ]*)\]")
_MAX_SIZE = re.compile(r"'max_cudagraph_capture_size': (\d+)")
_MODE = re.compile(r"'cudagraph_mode': <CUDAGraphMode\.(\w+)")
_DOWNGRADE = re.compile(r"[Ss]etting cudagraph_mode=(?:CUDAGraphMode\.)?(\w+)")
_BACKEND = re.compile(r"Using (\w+) attention backend")

# Field of the engine's configuration -> vLLM's flag without its dashes.
_FLAG_OF_FIELD = {
    "dtype": "dtype",
    "enable_chunked_prefill": "enable-chunked-prefill",
    "enable_prefix_caching": "enable-prefix-caching",
    "enforce_eager": "enforce-eager",
    "kv_cache_dtype": "kv-cache-dtype",
    "load_format": "load-format",
    "max_seq_len": "max-model-len",
    "pipeline_parallel_size": "pipeline-parallel-size",
    "quantization": "quantization",
    "tensor_parallel_size": "tensor-parallel-size",
}
# Given on every start by the kit itself, or no option: not read back.
_NOT_OPTIONS = {"model", "model_tag", "host", "port", "served_model_name"}

_REASONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"error: unrecognized arguments: (.+)", "it does not know the arguments {0}"),
        (r"error: (argument .+)", "{0}"),
        (r"[Aa]ddress already in use", "the port is in use"),
        (r"No module named '?([\w.]+)", "the Python package {0} is not installed"),
        (r"((?:CUDA|HIP) out of memory[^.]*)", "{0}"),
        (r"(No available memory for the cache blocks[^.]*)", "{0}"),
        (r"(Free memory on device .*? is less than desired[^.]*)", "{0}"),
        (r"(larger than the available KV cache memory[^.]*)", "the longest context is {0}"),
        (r"(No CUDA GPUs are available|Failed to infer device type)", "{0}"),
        (r"^(?:ERROR \S+ \S+ \[\S+\] )?((?:\w+\.)*\w+Error: .+)", "{0}"),
    )
)


def options(log: str) -> Options:
    """Return what the log says is in force, by flag name without dashes; absent: not said.

    Findings, not flags: `kv-cache-size-tokens`, `max-concurrency`, `attention-backend-in-use`.
    """
    found = given(log)
    if config := _CONFIG.search(log):
        for field, flag in _FLAG_OF_FIELD.items():
            if match := re.search(rf"\b{field}=([^,\s]+)", config[2]):
                found[flag] = _scalar(match[1].removeprefix("torch."))
        if sizes := _SIZES.search(config[2]):
            found["cudagraph-capture-sizes"] = sizes[1].replace(",", "")
        if largest := _MAX_SIZE.search(config[2]):
            found["max-cudagraph-capture-size"] = int(largest[1])
        if mode := _MODE.search(config[2]):
            found["cudagraph-mode"] = mode[1]
    if downgrade := _DOWNGRADE.findall(log):
        found["cudagraph-mode"] = downgrade[-1]
    if budget := _BUDGET.search(log):
        found["max-num-batched-tokens"] = int(budget[1])
    if "Asynchronous scheduling is" in log:
        found["async-scheduling"] = "Asynchronous scheduling is enabled" in log
    if pool := _POOL_TOKENS.search(log):
        found["kv-cache-size-tokens"] = int(pool[1].replace(",", ""))
    if concurrency := _CONCURRENCY.search(log):
        found["max-concurrency"] = float(concurrency[1])
    if backend := _BACKEND.search(log):
        found["attention-backend-in-use"] = backend[1]
    return found


def given(log: str) -> Options:
    """Return the arguments that vLLM says it was given, where they are plain values."""
    match = _GIVEN.search(log)
    if match is None:
        return {}
    try:
        arguments = ast.literal_eval(match[1])
    except (ValueError, SyntaxError):  # an argument printed as an object: read pair by pair
        pairs = re.findall(r"'(\w+)': ('[^']*'|True|False|None|[\d.]+)(?=[,}])", match[1])
        arguments = {key: _scalar(value.strip("'")) for key, value in pairs}
    return {
        key.replace("_", "-"): " ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in arguments.items()
        if key not in _NOT_OPTIONS and isinstance(value, bool | int | float | str | list)
    }


def version(log: str) -> str | None:
    """Return vLLM's version from its banner or its configuration line."""
    match = _CONFIG.search(log) or _BANNER.search(log)
    return match[1] if match else None


def reason(log: str) -> str | None:
    """Return why it did not start; the first line that says so. None: unknown."""
    lines = [_PREFIX.sub("", line) for line in log.splitlines()]
    for pattern, sentence in _REASONS:
        for line in lines:
            if match := pattern.search(line):
                return sentence.format(*match.groups()).strip()
    return None


def _scalar(text: str) -> bool | int | float | str | None:
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
