"""`engagement.yaml` as frozen dataclasses; an unknown key names the nearest right one."""

import difflib
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from teardown.errors import UsageError
from teardown.workload_settings import WorkloadSettings as WorkloadSettings
from teardown.workload_settings import check_workload

OptionValue = bool | int | float | str | None

METRICS = ("ttft_p50", "e2e_p50", "tpot_p50", "output_tokens_per_s", "goodput_per_s", "capacity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the client allows; what is not granted lowers confidence or is refused."""

    metrics: Literal["read", "none"] = "read"
    logs: Literal["read", "none"] = "read"
    host: Literal["none", "unprivileged", "root"] = "unprivileged"
    restart: Literal["never", "window", "yes"] = "yes"
    target: Literal["production", "staging", "replica"] = "staging"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSettings:
    """How the kit starts a local stack; options use the engine's own names."""

    launcher: str = field(default="xllamacpp", metadata={"key": "with"})
    model: str | None = None
    binary: str | None = None
    options: dict[str, OptionValue] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """The stack that is measured.

    api_key_env names the variable that holds a key, api_key_file the file. headers go with every
    timed request; a value may be `env:NAME` or `file:PATH`. tokenizer: a tokenizer.json or a GGUF
    file to count tokens with, where the server reports none.
    """

    kind: Literal["local", "ssh", "kubectl", "manual", "endpoint"] = "endpoint"
    engine: str = "auto"
    url: str = ""
    model: str = ""
    metrics: str | list[str] = "auto"
    api_key_env: str | None = None
    api_key_file: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    tokenizer: str | None = None
    launch: LaunchSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareSettings:
    """The accelerator, by a name of `engine_facts/gpus.json`, or its measured bandwidth."""

    gpu: str | None = None
    count: int = 1
    read_bandwidth_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A promise on one metric: each value at the named percentile, seconds."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    @property
    def seconds(self) -> float | None:
        """The bound that one request must keep; the strictest percentile that is named."""
        named = [v for v in (self.p50, self.p90, self.p95, self.p99) if v is not None]
        return max(named) if named else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """The latency promise: bounds per request, and the fraction of requests that must keep them."""

    ttft_s: Limit | None = None
    ttfo_s: Limit | None = None
    tpot_s: Limit | None = None
    e2e_s: Limit | None = None
    attainment: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to improve, by what factor at least, and what the answers may lose."""

    metric: str = "ttft_p50"
    at_least: float = 1.1
    accuracy: Literal["no_loss"] = "no_loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIf:
    """When a measurement gives up by itself: failed over finished; live users' time to first
    token, and how many of them wait, both from the engine's metrics without our own requests.
    """

    error_ratio: float | None = None
    live_ttft_p95_s: float | None = None
    live_queue: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the engagement may cost the client's stack."""

    max_usd: float | None = None
    max_requests_per_s: float | None = None
    window: str | None = None
    stop_if: StopIf = field(default_factory=StopIf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What the kit may spend: screened candidates, proof pairs, minutes."""

    trials: int = 12
    pairs: int = 4
    minutes: float = 60.0
    oracle_prompts: int = 8
    oracle_tokens: int = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices are inputs and carry their date: a GPU-hour, a million tokens of a hosted model."""

    gpu_hour_usd: float | None = None
    input_mtok_usd: float | None = None
    output_mtok_usd: float | None = None
    dated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy:
    """Where the accepted stack will run; filled into what is emitted."""

    host: str = "127.0.0.1"
    port: int = 8080
    user: str = "teardown"
    install_dir: str = "/opt/llm-server"
    python: str = "python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole of `engagement.yaml`."""

    client: str
    target: TargetSettings
    access: Access = field(default_factory=Access)
    privacy: Literal["hash", "shape", "full"] = "hash"
    hardware: Literal["auto"] | HardwareSettings = "auto"
    workloads: list[WorkloadSettings] = field(default_factory=list)
    promises: Promises = field(default_factory=Promises)
    goal: Goal = field(default_factory=Goal)
    limits: Limits = field(default_factory=Limits)
    budgets: Budgets = field(default_factory=Budgets)
    prices: Prices = field(default_factory=Prices)
    deploy: Deploy = field(default_factory=Deploy)


class _Loader(yaml.SafeLoader):
    """Safe YAML that leaves a date as the text it is written as (`dated: 2026-11-30`)."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # its base declares it without ClassVar
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def load_settings(path: Path) -> Settings:
    """Read `engagement.yaml`; UsageError names the file, the line and the nearest right key."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} does not exist; `teardown init DIR --url URL` writes one"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    return parse_settings(text, str(path))


def parse_settings(text: str, source: str = "engagement.yaml") -> Settings:
    """Parse the text of `engagement.yaml`; see `load_settings`."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise UsageError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{source} must be a mapping that starts with `client:`")
    _check_keys(node, Settings, source, "")
    try:
        settings = msgspec.convert(_rename(document, Settings), Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {error}") from error
    _check_values(settings, source)
    return settings


def _key_of(item: Any) -> str:
    return str(item.metadata.get("key", item.name))


def _dataclasses_in(hint: Any) -> list[Any]:
    """Return the dataclasses that a value of this type hint may be (or hold, for lists)."""
    if is_dataclass(hint):
        return [hint]
    if get_origin(hint) in (Union, types.UnionType, list):
        return [c for argument in get_args(hint) for c in _dataclasses_in(argument)]
    return []


def _check_keys(node: yaml.Node | None, cls: Any, source: str, path: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _check_keys(child, cls, source, path)
    if not isinstance(node, yaml.MappingNode):
        return
    known = {_key_of(item): item for item in fields(cls)}
    hints = get_type_hints(cls)
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; known: {', '.join(known)}"
            line = key_node.start_mark.line + 1
            raise UsageError(f"{source}, line {line}: unknown key `{path}{key}`{hint}")
        for inner in _dataclasses_in(hints[known[key].name]):
            _check_keys(value_node, inner, source, f"{path}{key}.")


def _rename(value: Any, hint: Any) -> Any:
    """Return `value` with keys that differ from their field (`with`) under the field's name."""
    classes = _dataclasses_in(hint)
    if not classes:
        return value
    if isinstance(value, list):
        return [_rename(item, classes[0]) for item in value]
    if not isinstance(value, Mapping):
        return value
    hints = get_type_hints(classes[0])
    names = {_key_of(item): item.name for item in fields(classes[0])}
    return {
        names.get(str(k), str(k)): _rename(v, hints[names[str(k)]]) if str(k) in names else v
        for k, v in value.items()
    }


def _check_values(settings: Settings, source: str) -> None:
    target = settings.target
    if target.kind == "local" and target.launch is None:
        raise UsageError(f"{source}: target.kind is local, so `target.launch` must say what starts")
    if target.kind != "local" and not target.url:
        raise UsageError(f"{source}: target.kind is {target.kind}, so `target.url` must be given")
    if settings.goal.metric not in METRICS:
        near = difflib.get_close_matches(settings.goal.metric, METRICS, n=1) or list(METRICS)
        raise UsageError(
            f"{source}: goal.metric {settings.goal.metric!r} is unknown; did you mean {near[0]!r}?"
        )
    names = [w.name for w in settings.workloads]
    for load in settings.workloads:
        if names.count(load.name) > 1:
            raise UsageError(f"{source}: two workloads are named {load.name!r}")
        check_workload(load, source)
