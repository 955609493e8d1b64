"""One entry of `workloads:` in `engagement.yaml`: what is sent, how, and what may not be mixed.

{kind: closed, concurrency: 8}                          users that ask again when answered
{kind: open, rate_per_s: 2.5, arrivals: gamma, burstiness: 0.5}
{kind: sweep, rates_per_s: [1, 2, 4]}                   or concurrencies: one run a level
{kind: ramp, rate_per_s: 1, rate_to_per_s: 8, duration_s: 300}      or concurrency_to
{kind: capacity, rate_per_s: 4, duration_s: 60}         first guess, least length of a level
{kind: trace, trace: conversation.jsonl, speed: 2}      twice as fast as it was
{kind: sessions, concurrency: 20, think_s: 5}           or rate_per_s of new sessions
{kind: voice, concurrencies: [50, 100, 200]}            calls at once, one run a level
{kind: probe, probe: {batch: 16, short_tokens: 128, long_tokens: 4096}}
"""

from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from teardown.errors import UsageError

LoadKind = Literal[
    "closed", "open", "sweep", "ramp", "capacity", "trace", "sessions", "voice", "probe"
]
TraceFormat = Literal["auto", "mooncake", "burstgpt", "azure", "lengths"]
# Keys beyond those of closed and open loops, and the kinds that have them.
KINDS_BY_KEY: Final[dict[str, frozenset[str]]] = {
    "burstiness": frozenset({"open", "sweep", "ramp", "capacity", "sessions"}),
    "rates_per_s": frozenset({"sweep"}),
    "concurrencies": frozenset({"sweep", "voice"}),
    "rate_to_per_s": frozenset({"ramp"}),
    "concurrency_to": frozenset({"ramp"}),
    "precision_ratio": frozenset({"capacity"}),
    "trace": frozenset({"trace"}),
    "trace_format": frozenset({"trace"}),
    "speed": frozenset({"trace"}),
    "synthetic": frozenset({"closed", "open", "sweep", "ramp", "capacity", "sessions"}),
    "voice": frozenset({"voice"}),
    "probe": frozenset({"probe"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Token counts drawn from a log-normal distribution; cv = standard deviation over mean."""

    mean: float
    cv: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSettings:
    """Prompts that the kit makes, in tokens of about one word each.

    prompt_tokens includes the shared prefix; requests are dealt to `prefix_groups` prefixes in
    turn. turns: how many each session has, every one `turn_tokens` of the user longer.
    """

    prompt_tokens: int | Lengths = 512
    output_tokens: int | Lengths = 64
    shared_prefix_tokens: int = 0
    prefix_groups: int = 1
    turns: int = 1
    turn_tokens: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceSettings:
    """A telephone call: `prompt_tokens` is the mean over its turns, transcript included."""

    turns: int = 8
    prompt_tokens: int = 1980
    reply_tokens: int = 64
    caller_words: int = 20
    words_per_minute: float = 150.0
    endpointing_s: float = 0.8
    ramp_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """The corners {1, batch} x {short, long}: equal lengths, `rounds` requests a user at each."""

    batch: int = 16
    short_tokens: int = 128
    long_tokens: int = 4096
    output_tokens: int = 64
    rounds: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """One workload: the prompts, the kind of load, and how long.

    prompts is the client's file; without it the kit makes them (`synthetic`, `trace`, `voice`,
    `probe`). burstiness is the shape of gamma arrivals: 1 is Poisson, below it they come in bursts.
    """

    name: str
    kind: LoadKind
    prompts: str | None = None
    regime: Literal["cold", "steady", "production"] = "cold"
    concurrency: int = 1
    rate_per_s: float | None = None
    arrivals: Literal["constant", "poisson", "gamma"] = "poisson"
    requests: int | None = None
    duration_s: float | None = None
    max_tokens: int = 64
    think_s: float = 0.0
    seed: int = 1
    timeout_s: float = 300.0
    extra_body: dict[str, Any] = field(default_factory=dict)
    burstiness: float = 1.0
    rates_per_s: list[float] | None = None
    concurrencies: list[int] | None = None
    rate_to_per_s: float | None = None
    concurrency_to: int | None = None
    precision_ratio: float = 0.1
    trace: str | None = None
    trace_format: TraceFormat = "auto"
    speed: float = 1.0
    synthetic: SyntheticSettings | None = None
    voice: VoiceSettings | None = None
    probe: ProbeSettings | None = None


def check_workload(load: WorkloadSettings, source: str) -> None:
    """Raise UsageError, one sentence naming the key, where `load` cannot be sent as it is."""
    fault = _misplaced(load) or _contradiction(load) or _missing(load) or _out_of_range(load)
    if fault:
        raise UsageError(f"{source}: workload {load.name!r} {fault}")


def _misplaced(load: WorkloadSettings) -> str | None:
    defaults = {item.name: item.default for item in fields(WorkloadSettings)}
    for key, kinds in KINDS_BY_KEY.items():
        if load.kind not in kinds and getattr(load, key) != defaults[key]:
            return f"is of kind {load.kind}, where `{key}` has no meaning; it is for " + (
                ", ".join(sorted(kinds))
            )
    return None


def _missing(load: WorkloadSettings) -> str | None:
    kind = load.kind
    if kind == "open" and not load.rate_per_s:
        return "is open and needs `rate_per_s`"
    if kind == "capacity" and not load.rate_per_s:
        return "is a capacity search and needs `rate_per_s`, the first rate it tries"
    if kind == "sweep" and not (load.rates_per_s or load.concurrencies):
        return "is a sweep and needs `rates_per_s` or `concurrencies`"
    if kind == "ramp" and load.rate_to_per_s is None and load.concurrency_to is None:
        return "is a ramp and needs `rate_to_per_s` or `concurrency_to`, where it ends"
    if kind == "ramp" and not load.duration_s:
        return "is a ramp and needs `duration_s`"
    if kind == "ramp" and load.rate_to_per_s is not None and load.rate_per_s is None:
        return "is a ramp to `rate_to_per_s` and needs `rate_per_s`, where it begins"
    if kind == "trace" and not (load.trace or load.prompts):
        return "is a trace and needs `trace`, the trace's file, or `prompts` whose lines have at_s"
    needs_prompts = kind in ("closed", "open", "sweep", "ramp", "capacity", "sessions")
    if needs_prompts and not (load.prompts or load.synthetic):
        return "needs `prompts`, a file, or `synthetic`, lengths to make some from"
    is_counted = load.requests is not None or load.duration_s is not None
    if load.synthetic and load.kind not in ("ramp", "capacity") and not is_counted:
        return "has `synthetic` prompts and needs `requests`, how many to make"
    is_closed = kind == "closed" or load.concurrencies or load.concurrency_to
    if load.synthetic and load.requests is None and is_closed:
        return "is a closed loop of `synthetic` prompts and needs `requests`, how many to make"
    return None


def _contradiction(load: WorkloadSettings) -> str | None:
    pairs = [
        ("prompts", "synthetic"),
        ("prompts", "trace"),
        ("rates_per_s", "concurrencies"),
        ("rate_to_per_s", "concurrency_to"),
    ]
    for one, other in pairs:
        if getattr(load, one) is not None and getattr(load, other) is not None:
            return f"has both `{one}` and `{other}`; only one can be meant"
    if load.kind == "probe" and load.prompts is not None:
        return "is a probe, which makes prompts of equal length, and cannot use `prompts`"
    if load.kind in ("voice", "sessions", "capacity") and load.regime == "production":
        return (
            f"is of kind {load.kind}, which needs fresh caches; `regime: production` has them as "
            "found"
        )
    if load.burstiness != 1.0 and load.arrivals != "gamma":
        return f"has `burstiness`, which is for `arrivals: gamma`, not {load.arrivals}"
    if load.kind == "ramp" and load.concurrency_to is not None and load.rate_per_s is not None:
        return "has both `concurrency_to` and `rate_per_s`; a ramp has one of them"
    if load.kind == "sessions" and load.rate_per_s is not None and load.concurrency != 1:
        return "has both `rate_per_s` and `concurrency`; sessions arrive by one of them"
    return None


def _out_of_range(load: WorkloadSettings) -> str | None:
    if load.concurrency < 1 or (load.requests is not None and load.requests < 1):
        return "needs at least one user and request"
    above_0 = ("rate_per_s", "rate_to_per_s", "duration_s", "burstiness", "speed", "timeout_s")
    for key in above_0:
        value = getattr(load, key)
        if key == "rate_per_s" and load.kind == "ramp" and value == 0:
            continue
        if value is not None and not 0 < value < float("inf"):
            return f"has `{key}` {value:g}; it must be above 0"
    if load.think_s < 0:
        return f"has `think_s` {load.think_s:g}; it must not be below 0"
    if load.kind == "ramp" and (load.concurrency_to or load.concurrency) < load.concurrency:
        return "has a `concurrency_to` below `concurrency`; users are only ever added"
    for key in ("rates_per_s", "concurrencies"):
        levels = getattr(load, key)
        if levels is not None and (sorted(set(levels)) != levels or not levels or levels[0] <= 0):
            return f"has `{key}` {levels}; they must be above 0 and rise"
    if not 0.01 <= load.precision_ratio <= 1:
        return f"has `precision_ratio` {load.precision_ratio:g}; it must be from 0.01 to 1"
    return _synthetic_fault(load.synthetic) or _parts_fault(load)


def _synthetic_fault(made: SyntheticSettings | None) -> str | None:
    if made is None:
        return None
    for key in ("prompt_tokens", "output_tokens"):
        asked = getattr(made, key)
        mean, cv = (asked.mean, asked.cv) if isinstance(asked, Lengths) else (asked, 0.0)
        if mean < 1 or not 0 <= cv <= 10:
            return f"has `synthetic.{key}` with mean {mean:g} and cv {cv:g}; 1 or more and 0 to 10"
    for key in ("prefix_groups", "turns", "turn_tokens"):
        if getattr(made, key) < 1:
            return f"has `synthetic.{key}` {getattr(made, key)}; it must be at least 1"
    longest = (
        made.prompt_tokens.mean if isinstance(made.prompt_tokens, Lengths) else (made.prompt_tokens)
    )
    if not 0 <= made.shared_prefix_tokens < longest:
        return (
            f"has `synthetic.shared_prefix_tokens` {made.shared_prefix_tokens}; it is a part of "
            f"`prompt_tokens`, {longest:g}, and must be below it"
        )
    return None


def _parts_fault(load: WorkloadSettings) -> str | None:
    voice, probe = load.voice or VoiceSettings(), load.probe or ProbeSettings()
    for key in ("turns", "reply_tokens", "caller_words", "words_per_minute"):
        if getattr(voice, key) < 1:
            return f"has `voice.{key}` {getattr(voice, key):g}; it must be at least 1"
    for key in ("endpointing_s", "ramp_s"):
        if getattr(voice, key) < 0:
            return f"has `voice.{key}` {getattr(voice, key):g}; it must not be below 0"
    if probe.batch < 2 or probe.rounds < 1 or probe.output_tokens < 2 or probe.short_tokens < 1:
        return "has a `probe` that is too small: batch 2, rounds 1, output_tokens 2, short_tokens 1"
    if probe.long_tokens < 4 * probe.short_tokens:
        return (
            f"has `probe.long_tokens` {probe.long_tokens}; below 4 times `short_tokens` reading "
            "weights and reading the cache cannot be told apart"
        )
    return None
