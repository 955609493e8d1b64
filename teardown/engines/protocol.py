"""What the kit asks of an engine; one file per engine implements it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from teardown.records import LaunchSpec, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What an endpoint said it is. models: names it serves; version None where it does not say."""

    engine: str
    version: str | None
    models: list[str]
    options: Options
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """One scrape of an engine's metrics page in the kit's words; None where it has no such metric.

    Counters rise from the engine's start (difference two scrapes); gauges are of the moment.
    Tokens are counts, times seconds summed over requests. prompt_tokens include cached_tokens,
    except on old llama.cpp pages, which count no cached tokens: cached_tokens is then None.
    """

    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    queried_tokens: float | None = None
    output_tokens: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    queue_s: float | None = None
    requests: float | None = None
    steps: float | None = None
    preemptions: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What to start: launcher (xllamacpp | llama-server | llama-cpp-python | vllm), model path
    (None: the embedded model), the name to serve it under, and options in the engine's own names.
    """

    launcher: str
    model: str | None
    served_model: str
    options: Options
    binary: str | None = None
    env: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start: argv, extra environment, and files written beside it (name -> text)."""

    argv: list[str]
    env: dict[str, str]
    files: dict[str, str]


class Engine(Protocol):
    """One engine, by its own option names."""

    name: ClassVar[str]
    launchers: ClassVar[tuple[str, ...]]

    def detect(self, url: str, *, api_key: str | None = None) -> Detected | None:
        """Recognise this engine at `url` (ends in /v1); None when it is another."""

    def command(self, launch: Launch, *, host: str, port: int, workdir: Path) -> Command:
        """Return the process that serves `launch`; UsageError for an option it does not know."""

    def is_healthy(self, url: str) -> bool:
        """True once the engine answers that it is ready."""

    def effective(
        self, launch: Launch, url: str, log: str, *, api_key: str | None = None
    ) -> Options:
        """Return the options that the running engine says it uses, from its pages and its log."""

    def mismatches(self, asked: Options, effective: Options) -> list[str]:
        """Return one sentence per option that does not run as asked, after documented rounding."""

    def startup_error(self, log: str) -> str | None:
        """Return the reason for a failed start as one sentence, from the log; None if unknown."""

    def metrics_url(self, url: str) -> str | None:
        """Return where the metrics page of the server at `url` is; None if it has none."""

    def counters(self, page: str) -> Counters:
        """Read one metrics page."""

    def launch_spec(self, launch: Launch) -> LaunchSpec:
        """Return how to start `launch` on any host, for the files that are emitted."""

    def version(self, launch: Launch, log: str) -> str | None:
        """Return the engine's version, from its package or its log."""
