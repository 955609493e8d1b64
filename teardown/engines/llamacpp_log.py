"""llama.cpp's log: the options that it runs, and why it did not start.

Read at verbosity 4 (xllamacpp 2026.10; `llama-server -lv 4`). llama-cpp-python prints the same
`llama_context` and `llama_kv_cache` lines. With a draft model a second context follows: the first
one is the model's.
"""

import re

from teardown.records import Options

_CONTEXT = re.compile(r"llama_context: (\w+)\s+= (\S+)")
_CACHE = re.compile(
    r"llama_kv_cache: size = .*?K \((\w+)\):\s+([\d.]+) MiB, V \((\w+)\):\s+([\d.]+) MiB"
)
_THREADS = re.compile(r"system_info: n_threads = (\d+) \(n_threads_batch = (\d+)\)")
_PROMPT_CACHE = re.compile(r"prompt cache is (enabled|disabled)(?:, size limit: (\d+) MiB)?")
_CHECKPOINTS = re.compile(r"context checkpoints enabled, max = (\d+)")
_SPECULATION = re.compile(
    r"adding speculative implementation '([\w-]+)'|no implementations specified for speculative"
)
_FLASH = re.compile(r"Flash Attention (?:was auto, set to )?(enabled|disabled)")
_FLASH_STATES = {"enabled": "on", "disabled": "off", "auto": "auto"}

_OPTION_OF_FIELD = {
    "n_seq_max": "parallel",
    "n_ctx": "ctx-size",
    "n_batch": "batch-size",
    "n_ubatch": "ubatch-size",
}

# What the log says -> the sentence; {0} is what the pattern caught. The first match counts.
_REASONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"^serve: ((?!ready|draining|stopped|the engine did not start).+)", "{0}"),
        (r"error: (invalid argument|unknown argument|unknown value|invalid value)(.*)", "{0}{1}"),
        (
            r"quantized V cache requires flash_attn|V cache quantization requires flash_attn",
            "a quantised V cache needs flash attention, which is off (`flash-attn`)",
        ),
        (r"(?:couldn't|failed to) bind.*?port[ :=]+(\d+)", "port {0} is in use"),
        (r"couldn't bind HTTP server socket.*?(\d+)\s*$", "port {0} is in use"),
        (r"[Aa]ddress already in use", "the port is in use"),
        (r"invalid magic characters", "the model is not a GGUF file"),
        (r"gguf_init_\w+: (failed to read .+)", "the model is not a whole GGUF file: {0}"),
        (r"failed to allocate .*?(\d+ bytes|[\d.]+ MiB).*", "out of memory: {0} were refused"),
        (r"(cudaMalloc failed: out of memory|out of memory|std::bad_alloc)", "out of memory"),
        (r"unknown model architecture: '([^']+)'", "it does not know the architecture {0!r}"),
        (r"No module named '?([\w.]+)", "the Python package {0} is not installed"),
        (r" E \w+ +(?:\S+: )?(.+)", "{0}"),
        (r"^(\w*(?:Error|Exception): .+)", "{0}"),
    )
)


def options(log: str) -> Options:
    """Return what the log says is in force, by llama.cpp's option names; absent: not said.

    `kv-cache-mib`, the size of the cache, is a finding and no option.
    """
    found: Options = {**_context(log)}
    if cache := _CACHE.search(log):
        found["cache-type-k"], found["cache-type-v"] = cache[1], cache[3]
        found["kv-cache-mib"] = round(float(cache[2]) + float(cache[4]), 2)
    if threads := _THREADS.search(log):
        found["threads"], found["threads-batch"] = int(threads[1]), int(threads[2])
    if checkpoints := _CHECKPOINTS.search(log):
        found["ctx-checkpoints"] = int(checkpoints[1])
    if state := _PROMPT_CACHE.search(log):
        limit = {"enabled": -1, "disabled": 0}[state[1]]
        found["cache-ram"] = int(state[2]) if state[2] else limit
    if speculation := _SPECULATION.findall(log):
        found["spec-type"] = ",".join(dict.fromkeys(name or "none" for name in speculation))
    return found


def _context(log: str) -> Options:
    """Return what the first `llama_context` says; flash attention as `auto` came out."""
    context: dict[str, str] = {}
    for match in _CONTEXT.finditer(log):
        context.setdefault(match[1], match[2])
    found: Options = {
        option: int(context[field])
        for field, option in _OPTION_OF_FIELD.items()
        if field in context
    }
    if "kv_unified" in context:
        found["kv-unified"] = context["kv_unified"] == "true"
    state = context.get("flash_attn", "")
    if state == "auto" and (resolved := _FLASH.search(log)):
        state = resolved[1]
    if state in _FLASH_STATES:
        found["flash-attn"] = _FLASH_STATES[state]
    return found


def reason(log: str) -> str | None:
    """Return why the engine did not start, as one sentence without a full stop; None: unknown."""
    for pattern, sentence in _REASONS:
        for line in log.splitlines():
            if match := pattern.search(line):
                return sentence.format(*(group or "" for group in match.groups())).strip()
    return None


def build(log: str) -> str | None:
    """Return llama.cpp's build as `bNNNN`; None where the log says none, or says 0."""
    match = re.search(r"build(?:_info)?:? b?(\d+)", log)
    return f"b{match[1]}" if match and match[1] != "0" else None
