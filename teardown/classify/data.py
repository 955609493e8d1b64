"""What the attribution reads: one run with everything that is known about it. No loader here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from teardown.engines.protocol import Counters
from teardown.records import Options, Request, Run
from teardown.settings import Promises


class Scrape(NamedTuple):
    """One reading of one replica's metrics page; unix seconds."""

    unix_s: float
    counters: Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What one model costs to read. A value that cannot be known is None; `reasons` says why.

    weights_streamed_bytes: read per decode step outside of routed experts. expert_bytes: all routed
    experts of all layers, of which a step with T tokens reads 1 - (1 - used/experts)^T. Of
    kv_bytes_per_token, window_kv_bytes_per_token belong to layers that see `window_tokens` at most.
    """

    source: str
    num_layers: int | None = None
    num_parameters: int | None = None
    weights_streamed_bytes: float | None = None
    expert_bytes: float = 0.0
    num_experts: int = 0
    num_experts_used: int = 0
    kv_bytes_per_token: float | None = None
    window_kv_bytes_per_token: float = 0.0
    window_tokens: int | None = None
    reasons: dict[str, str] = field(default_factory=dict)

    def streamed_bytes(self, tokens: float) -> float | None:
        """Return the weight bytes that one step with `tokens` tokens reads."""
        if self.weights_streamed_bytes is None:
            return None
        touched = 1.0
        if self.num_experts:
            touched = 1 - (1 - self.num_experts_used / self.num_experts) ** max(tokens, 1.0)
        return self.weights_streamed_bytes + self.expert_bytes * touched

    def kv_bytes(self, context_tokens: float) -> float | None:
        """Return the cache bytes that one sequence with this context has read per step."""
        if self.kv_bytes_per_token is None:
            return None
        full = (self.kv_bytes_per_token - self.window_kv_bytes_per_token) * context_tokens
        seen = min(context_tokens, self.window_tokens or context_tokens)
        return full + self.window_kv_bytes_per_token * seen


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareFacts:
    """What the engine's device can read: all `count` devices together, bytes per second.

    how: measured (a probe or the client's own number) or datasheet (times DATASHEET_READ_RATIO).
    """

    device: Literal["cpu", "gpu"]
    name: str
    read_bandwidth_bytes_per_s: float | None
    how: Literal["measured", "datasheet", "unknown"]
    source: str
    count: int = 1
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """One run and what was seen around it.

    scrapes: metrics by replica URL, in time order. unix_zero_s: the run's zero of time in Unix
    seconds; None where the clients' clock is one of its own. reusable_tokens_ratio: fraction of
    prompt tokens that an ideal prefix cache would have served within this run. host: rows of
    host.json, gpu: rows of gpu.csv, by column name. absent: source -> why it is not there.
    """

    run: Run
    requests: Sequence[Request]
    scrapes: Mapping[str, Sequence[Scrape]] = field(default_factory=dict)
    model: ModelFacts | None = None
    hardware: HardwareFacts | None = None
    unix_zero_s: float | None = None
    reusable_tokens_ratio: float | None = None
    promises: Promises | None = None
    host: Sequence[Mapping[str, Any]] = ()
    gpu: Sequence[Mapping[str, Any]] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        """Options as asked, overlaid with those in force."""
        return {**self.run.target.options, **self.run.target.effective}

    @property
    def num_replicas(self) -> int:
        """Replicas that share the load: by metrics page, else by the requests' own word."""
        named = {r.replica for r in self.requests if r.replica is not None}
        return max(1, len(self.scrapes), len(named))
