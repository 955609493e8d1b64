"""Serve one GGUF model with llama.cpp's own server, as packaged by xllamacpp; stands alone.

    python serve.py CONFIG.json [--model PATH] [--host H] [--port P]

CONFIG.json: {"model": PATH, "alias": NAME, "host": H, "port": P, "drain_s": 30, "options": {...}},
options by llama.cpp's own names (`parallel`, `ctx-size`, `cache-type-k`, ...; see OPTIONS).
SIGTERM drains: the process waits until no request runs or waits, at most `drain_s`, then ends; a
second SIGTERM ends it at once. Exit codes: 0 after a stop, 1 the engine refused, 2 configuration.
The log goes to standard error at llama.cpp's verbosity 4, the lowest that names cache types,
batch sizes, threads and flash attention.
"""

import argparse
import difflib
import json
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

VERBOSITY = 4
DRAIN_S = 30.0
POLL_S = 0.05
KEYS = ("model", "alias", "host", "port", "drain_s", "options")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")

# llama.cpp's option -> (attribute of CommonParams, kind of value)
OPTIONS: dict[str, tuple[str, str]] = {
    "batch-size": ("n_batch", "int"),
    "cache-idle-slots": ("cache_idle_slots", "bool"),
    "cache-prompt": ("cache_prompt", "bool"),
    "cache-ram": ("cache_ram_mib", "int"),
    "cache-reuse": ("n_cache_reuse", "int"),
    "cache-type-k": ("cache_type_k", "cache_type"),
    "cache-type-v": ("cache_type_v", "cache_type"),
    "chat-template": ("chat_template", "str"),
    "checkpoint-min-step": ("checkpoint_min_step", "int"),
    "cont-batching": ("cont_batching", "bool"),
    "context-shift": ("ctx_shift", "bool"),
    "ctx-checkpoints": ("n_ctx_checkpoints", "int"),
    "ctx-size": ("n_ctx", "int"),
    "fit": ("fit_params", "bool"),
    "flash-attn": ("flash_attn_type", "flash"),
    "jinja": ("use_jinja", "bool"),
    "kv-unified": ("kv_unified", "bool"),
    "kv-unified-per-slot": ("kv_unified_per_slot", "int"),
    "main-gpu": ("main_gpu", "int"),
    "metrics": ("endpoint_metrics", "bool"),
    "model-draft": ("speculative.draft.mparams.path", "str"),
    "n-gpu-layers": ("n_gpu_layers", "int"),
    "n-predict": ("n_predict", "int"),
    "parallel": ("n_parallel", "int"),
    "poll": ("cpuparams.poll", "int"),
    "prio": ("cpuparams.priority", "priority"),
    "slot-prompt-similarity": ("slot_prompt_similarity", "float"),
    "slots": ("endpoint_slots", "bool"),
    "spec-draft-n-max": ("speculative.draft.n_max", "int"),
    "spec-draft-n-min": ("speculative.draft.n_min", "int"),
    "spec-draft-p-min": ("speculative.draft.p_min", "float"),
    "spec-type": ("speculative.types", "speculation"),
    "swa-full": ("swa_full", "bool"),
    "threads": ("cpuparams.n_threads", "int"),
    "threads-batch": ("cpuparams_batch.n_threads", "int"),
    "threads-http": ("n_threads_http", "int"),
    "timeout": ("timeout_read", "int"),
    "ubatch-size": ("n_ubatch", "int"),
    "warmup": ("warmup", "bool"),
}


def fail(message: str, code: int = 2) -> NoReturn:
    """End the process with one sentence on standard error."""
    print(f"serve: {message}", file=sys.stderr, flush=True)
    os._exit(code)


def convert(option: str, kind: str, value: Any, xllamacpp: Any) -> Any:
    """Return `value` as CommonParams takes it; ValueError says what would be right."""
    if kind == "bool":
        if not isinstance(value, bool):
            raise ValueError("takes true or false")
        return value
    if kind in ("int", "float"):
        numbers = (int,) if kind == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, numbers):
            raise ValueError(f"takes {'a whole number' if kind == 'int' else 'a number'}")
        return value
    if kind == "cache_type":
        if value not in CACHE_TYPES:
            raise ValueError(f"takes one of {', '.join(CACHE_TYPES)}")
        return getattr(xllamacpp.ggml_type, f"GGML_TYPE_{str(value).upper()}")
    if kind == "flash":
        name = {True: "on", False: "off"}.get(value, value)
        states = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
        if name not in states:
            raise ValueError("takes on, off or auto")
        return getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{states[name]}")
    if kind == "priority":
        if isinstance(value, bool) or value not in range(-1, 4):
            raise ValueError("takes -1 (low) to 3 (realtime)")
        return xllamacpp.ggml_sched_priority(value)
    if kind == "speculation":
        prefix = "COMMON_SPECULATIVE_TYPE_"
        known = {m.name.removeprefix(prefix): m for m in xllamacpp.common_speculative_type}
        names = [part.strip().upper().replace("-", "_") for part in str(value).split(",")]
        if any(name not in known for name in names):
            names_known = sorted(n.lower().replace("_", "-") for n in known)
            raise ValueError(f"takes one of {', '.join(names_known)}")
        return [known[name] for name in names]
    return str(value)


def set_options(params: Any, options: dict[str, Any], xllamacpp: Any) -> None:
    """Set every option on `params`; ends the process on one that is unknown or wrong."""
    for option, value in options.items():
        if option not in OPTIONS:
            near = difflib.get_close_matches(option, OPTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            fail(f"unknown option {option!r}{hint}")
        if value is None:
            continue
        path, kind = OPTIONS[option]
        *parents, attribute = path.split(".")
        holder = params
        for parent in parents:
            holder = getattr(holder, parent)
        try:
            setattr(holder, attribute, convert(option, kind, value, xllamacpp))
        except (ValueError, TypeError, OverflowError) as error:
            fail(f"option {option!r} is {value!r} but {error}")


def check_keys(config: Any, arguments: argparse.Namespace) -> None:
    """End the process unless the configuration has what it needs and nothing unknown."""
    if not isinstance(config, dict) or not isinstance(config.get("options", {}), dict):
        fail(f"{arguments.config} must be a JSON object, and its `options` too")
    for key in config:
        if key not in KEYS:
            fail(f"{arguments.config} has the unknown key {key!r}; known: {', '.join(KEYS)}")
    for key in ("model", "port"):
        if getattr(arguments, key) is None and config.get(key) is None:
            fail(f"no {key}: give it in {arguments.config} or as --{key}")
    if arguments.port is None and not str(config["port"]).isdigit():
        fail(f"the port is {config['port']!r} but must be a number")


def check_model(path: Path) -> None:
    """End the process unless `path` is a file that begins as GGUF files do."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        fail(f"the model {path} cannot be read: {error.strerror}")
    if magic != b"GGUF":
        fail(f"the model {path} is not a GGUF file (it begins with {magic!r})")


def check_port(host: str, port: int) -> None:
    """End the process when another one listens at `host`:`port`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            fail(f"port {port} on {host} cannot be used: {error.strerror}")


def busy_requests(base: str) -> int:
    """Return how many requests run or wait, by /metrics or else /slots; 0 when neither answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    for page in ("/metrics", "/slots"):
        try:
            with opener.open(base + page, timeout=5) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            error.close()
            continue  # the page is switched off
        except OSError:
            continue
        if page == "/slots":
            return sum(bool(slot.get("is_processing")) for slot in json.loads(text))
        found = re.findall(r"^llamacpp:requests_(?:processing|deferred) (\S+)", text, re.MULTILINE)
        return sum(int(float(number)) for number in found)
    return 0


def drain(base: str, deadline: float, now: threading.Event) -> None:
    """Return once two looks in a row saw no request, at the deadline, or when `now` is set."""
    idle = 0
    while time.monotonic() < deadline and idle < 2:
        idle = idle + 1 if busy_requests(base) == 0 else 0
        if now.wait(POLL_S):
            return


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="Serve one GGUF model with xllamacpp.")
    parser.add_argument("config", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    try:
        config = json.loads(arguments.config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{arguments.config} cannot be read: {error}")
    check_keys(config, arguments)
    model = arguments.model or Path(config["model"])
    host = arguments.host or config.get("host") or "127.0.0.1"
    port = int(arguments.port if arguments.port is not None else config["port"])
    check_model(model)
    check_port(host, port)
    try:
        import xllamacpp
    except ImportError as error:
        fail(f"xllamacpp cannot be imported ({error}); pip install xllamacpp")

    params = xllamacpp.CommonParams()
    params.verbosity, params.ui, params.endpoint_metrics = VERBOSITY, False, True
    params.model.path, params.hostnames, params.port = str(model), [host], port
    params.model_alias = [str(config.get("alias") or model.stem)]
    set_options(params, config.get("options") or {}, xllamacpp)
    try:
        server = xllamacpp.Server(params)
    except Exception as error:  # xllamacpp raises RuntimeError; the reason is in its log above
        fail(f"the engine did not start: {error}", 1)

    stop, now = threading.Event(), threading.Event()

    def asked_to_stop(_signal: int, _frame: object) -> None:
        (now if stop.is_set() else stop).set()

    signal.signal(signal.SIGTERM, asked_to_stop)
    signal.signal(signal.SIGINT, asked_to_stop)
    print(f"serve: ready on {host} port {port} ({server.listening_address})", file=sys.stderr)
    sys.stderr.flush()
    while not stop.wait(1.0):
        pass  # a signal that lands in an engine's thread does not wake an endless wait
    print("serve: draining", file=sys.stderr, flush=True)
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    reachable = f"[{reachable}]" if ":" in reachable else reachable
    drain(f"http://{reachable}:{port}", time.monotonic() + config.get("drain_s", DRAIN_S), now)
    print("serve: stopped", file=sys.stderr, flush=True)
    os._exit(0)  # deleting the Server waits for ever on a client that keeps its connection


if __name__ == "__main__":
    main()
