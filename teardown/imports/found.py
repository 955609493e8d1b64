"""What a reader found: one run of somebody else, in this kit's words, before it is judged."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from teardown.records import Request, Segment, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A number that the tool itself printed, under its own definition.

    ours: the same statistic by DEFINITIONS.md over the imported requests, in the same unit; None
    where there are no requests or no such word. says: how the tool's definition differs.
    """

    name: str
    value: float
    unit: str
    metric: str | None = None
    statistic: str | None = None
    ours: float | None = None
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the tool was asked to send. concurrency: cap or number of streams of a closed loop;
    is_asked: the file says so, and it is not what was seen in flight.

    achieved_rate_is_meant: the tool's arrivals come to `rate_per_s` over the run whatever the
    draw, so that the achieved rate may be held against it where intended times are not stored.
    """

    is_open: bool
    concurrency: int
    is_asked: bool = True
    rate_per_s: float | None = None
    num_intended: int | None = None
    achieved_rate_is_meant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run as a tool left it.

    source: vllm-bench | guidellm | aiperf | recording. requests: empty where the file holds
    aggregates alone. segments: empty where the tool's clock is one of its own. lost: what cannot be
    recovered, a sentence each. hit_ratio: cached over prompt tokens by the engine's own counters;
    reusable_ratio: what of the prompts their own sharing explains, None where no text is kept.
    files: name -> bytes, written beside run.json as they are. gpu_names: as the driver says.
    """

    source: str
    tool: str
    tool_version: str | None
    workload: str
    stack: Stack
    load: Load
    requests: list[Request]
    segments: list[Segment] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hit_ratio: float | None = None
    reusable_ratio: float | None = None
    url: str | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    gpu_names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an imported run came from; kept beside it as imported.json.

    part: which of the runs in that file, from 0. sha256: of the file, or of a folder's files.
    """

    SCHEMA: ClassVar[str] = "teardown.imported/1"

    source: str
    tool: str
    tool_version: str | None
    file: str
    sha256: str
    part: int
    cannot_recover: list[str]
    stated: list[Stated]
    numbers: Literal["recomputed", "stated"]
