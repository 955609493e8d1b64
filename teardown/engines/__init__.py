"""Engines: one file each; `ENGINES` names them. Importing this imports no engine's package."""

import difflib

from teardown.engines.embedded import EMBEDDED_NAME, embedded_model
from teardown.engines.llamacpp import LlamaCpp
from teardown.engines.llamacpp_python import LlamaCppPython
from teardown.engines.openai import OpenAiCompatible
from teardown.engines.protocol import Command, Counters, Detected, Engine, Launch
from teardown.engines.vllm import Vllm
from teardown.errors import TargetError, UsageError

__all__ = [
    "EMBEDDED_NAME",
    "ENGINES",
    "Command",
    "Counters",
    "Detected",
    "Engine",
    "Launch",
    "detect",
    "embedded_model",
    "engine_by_name",
    "engine_for_launcher",
]

# In the order in which `detect` asks; the last one takes anything that lists models.
ENGINES: dict[str, type[Engine]] = {
    "llama.cpp": LlamaCpp,
    "vllm": Vllm,
    "llama-cpp-python": LlamaCppPython,
    "openai": OpenAiCompatible,
}


def engine_by_name(name: str) -> Engine:
    """Return the engine called `name`; UsageError with the nearest name."""
    if name not in ENGINES:
        near = difflib.get_close_matches(name, ENGINES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ENGINES)}"
        raise UsageError(f"engine {name!r} is not known; {hint}")
    return ENGINES[name]()


def engine_for_launcher(launcher: str) -> Engine:
    """Return the engine that `launcher` starts; UsageError with the nearest launcher."""
    by_launcher = {name: engine for engine in ENGINES.values() for name in engine.launchers}
    if launcher not in by_launcher:
        near = difflib.get_close_matches(launcher, by_launcher, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(by_launcher)}"
        raise UsageError(f"launcher {launcher!r} is not known; {hint}")
    return by_launcher[launcher]()


def detect(url: str, *, api_key: str | None = None) -> tuple[Engine, Detected]:
    """Ask the server at `url` (ends in /v1) what it is; TargetError when it lists no models."""
    for engine_class in ENGINES.values():
        engine = engine_class()
        found = engine.detect(url, api_key=api_key)
        if found is not None:
            return engine, found
    raise TargetError(
        f"{url} does not answer as an OpenAI-compatible server (no list at /v1/models); "
        "check the address, that it ends in /v1, and the API key"
    )
