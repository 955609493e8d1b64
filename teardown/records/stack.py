"""A serving stack: what runs, with which options, and how to start it anywhere."""

from dataclasses import dataclass, field

OptionValue = bool | int | float | str | None
Options = dict[str, OptionValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One engine with its options, in the engine's own option names.

    launcher: xllamacpp | llama-server | llama-cpp-python | vllm | external. model: path or name as
    the launcher takes it. served_model: the name that requests use. `options` lists what was asked;
    `effective` what the engine said it runs, after its own rounding.
    """

    engine: str
    launcher: str
    version: str | None
    model: str
    served_model: str
    options: Options
    effective: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """How to start one stack on a host, for the files that are emitted.

    argv uses `{python}`, `{root}`, `{model}`, `{host}`, `{port}` as placeholders; `files` are
    written under `{root}` (name -> text). packages: what pip installs for it, pinned.
    health_path answers 200 when the engine is ready. drain_s: how long a stop may wait.
    """

    argv: list[str]
    files: dict[str, str]
    env: dict[str, str]
    packages: list[str]
    health_path: str
    metrics_path: str | None
    start_timeout_s: float
    drain_s: float
