"""Changes that buy speed with the answers themselves; no measurement can make them right.

Each entry is a way in which a tuned stack was once made to look fast: dummy weights
(vLLM `auto_tune.sh`), lossy verification of guesses (`rejection_sample_method`, vLLM 0.33), ended
or cut answers, another prompt (chat template), another model under the old name.
"""

import json
from collections.abc import Mapping

from teardown.records import Options, OptionValue

# option -> why no change may set it to another value than the client's
FIXED = {
    "alias": "requests name the model by it",
    "chat-template": "it changes the prompts",
    "chat-template-file": "it changes the prompts",
    "dtype": "it changes the weights' precision",
    "enable-lora": "adapters are part of the model",
    "generation-config": "it changes how tokens are chosen",
    "hf-overrides": "it changes the model",
    "lora": "adapters are part of the model",
    "lora-modules": "adapters are part of the model",
    "model": "it is another model",
    "n-predict": "it cuts answers",
    "override-generation-config": "it changes how tokens are chosen",
    "override-kv": "it changes the model",
    "quantization": "it changes the weights' precision",
    "revision": "it is another model",
    "served-model-name": "requests name the model by it",
    "tokenizer": "it changes the prompts",
}
# option -> values that are never measured, whoever asks for them
FORBIDDEN_VALUES: dict[str, tuple[OptionValue, ...]] = {
    "load-format": ("dummy",),
    "ignore-eos": (True,),
    "interrupt_requests": (True,),
    "rejection-sample-method": ("synthetic", "fly"),
}
LOSSY_SPECULATION = ("synthetic", "fly")
CONTEXT_OPTIONS = {"ctx-size": "parallel", "max-model-len": None, "n_ctx": None}


def forbidden(
    changes: Options,
    original: Options | None = None,
    max_context_tokens: int | None = None,
) -> list[str]:
    """Return one sentence per change that must not be tried; empty where all may be.

    original: the client's options, so that what the client runs already is not held against the
    change. max_context_tokens: what the largest request needs, prompt and answer.
    """
    before = original or {}
    merged = {**before, **changes}
    found = []
    for option, value in changes.items():
        name = option.removeprefix("--")
        if value == before.get(option):
            continue
        if name in FIXED:
            found.append(f"{name} must stay as it is: {FIXED[name]}")
        if value in FORBIDDEN_VALUES.get(name, ()):
            found.append(f"{name} {_shown(value)} is not a faster server but a different answer")
        if name.startswith("spec-synth"):
            found.append(f"{name} makes up accepted tokens")
        if name == "speculative-config" and value is not None:
            found += _speculation(value)
        if name in CONTEXT_OPTIONS and max_context_tokens is not None:
            found += _context(name, value, merged, max_context_tokens)
        if name == "parallel" and "ctx-size" not in changes and max_context_tokens is not None:
            found += _context("ctx-size", merged.get("ctx-size"), merged, max_context_tokens)
    return found


def _speculation(value: OptionValue) -> list[str]:
    try:
        config = json.loads(str(value))
    except ValueError:
        return [f"speculative-config {value!r} is not JSON"]
    method = config.get("rejection_sample_method") if isinstance(config, Mapping) else None
    if method in LOSSY_SPECULATION:
        return [f"rejection_sample_method {method} accepts tokens that the model would not choose"]
    return []


def _context(name: str, value: OptionValue, merged: Options, needed: int) -> list[str]:
    """Return a finding when a request cannot hold its prompt and answer any more."""
    if isinstance(value, bool) or not isinstance(value, int) or value == 0:
        return []
    slots_option = CONTEXT_OPTIONS[name]
    slots = merged.get(slots_option) if slots_option else 1
    shared = bool(merged.get("kv-unified"))
    each = value if shared or not isinstance(slots, int) else value // max(slots, 1)
    if each >= needed:
        return []
    return [f"{name} {value} leaves {each} tokens for a request that needs {needed}"]


def _shown(value: OptionValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
