"""`vllm bench serve`: one JSON object a run, with lists of requests after --save-detailed.

Read on the files of vLLM 0.26 and vllm/benchmarks/serve.py. Times are seconds of the client's own
counter (time.perf_counter), so they compare among themselves alone. A file of --append-result
holds one object a line.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from teardown.errors import UsageError
from teardown.imports.document import Node, parse, read_text
from teardown.imports.found import Found, Load, Stated
from teardown.imports.times import NEVER_KEPT, failed, last_line, of_chunks, status_of
from teardown.records import Request, Stack

SOURCE: Final = "vllm-bench"
LISTS: Final = ("input_lens", "output_lens", "ttfts", "itls", "errors")
STATISTICS: Final = {"mean": "mean", "median": "p50", "p99": "p99"}
METRICS: Final = {"ttft": "ttft_s", "tpot": "tpot_s", "e2el": "e2e_s"}
SAYS: Final = {
    "ttft": "to the first chunk with choices, also where it holds no text",
    "tpot": "(E2E - TTFT) / (tokens - 1)",
    "e2el": "to the last chunk with choices",
}
ROLE_BACKENDS: Final = ("openai-chat",)
LOST: Final = [
    "connecting and writing the body: its clock starts before both, so TTFT and E2E hold them",
    "when a chunk reached the host: the client stamps a chunk when it comes to parse it, with no "
    "kernel stamp, so whether the client was late (client_limited) cannot be judged",
    "the finish reason and whether a stream ended as it should: a stream that broke off after its "
    "first chunk counts as answered",
    "reasoning: it is not told from an answer, and a chunk without text counts as a chunk",
    "cached tokens of a request",
    "Unix times: its counter cannot be laid over an engine's log or metrics",
]
NO_DETAILS: Final = (
    "every request: the file was written without --save-detailed and holds aggregates alone"
)
NO_STARTS: Final = "when each request was sent: the file has no start_times"
HIDDEN_WAIT: Final = (
    "the wait for --max-concurrency: requests went out by rate, and the file does not keep how "
    "long each was held back, so latency from intended is not known"
)


def is_result(node: Node) -> bool:
    """True for one result of `vllm bench serve`."""
    return node.has("backend", "num_prompts", "request_rate", "completed")


def recognises(node: Node) -> bool:
    """True where the first object of a file is such a result."""
    return is_result(node)


def read(path: Path) -> list[Found]:
    """Return the run or runs of one file; UsageError names the place that is wrong."""
    text = read_text(path)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.startswith("{") and line.endswith("}") for line in lines):
        nodes = [parse(line, f"{path}, line {row}:") for row, line in enumerate(lines, 1)]
    else:
        nodes = [parse(text, f"{path}:")]
    name = path.name.removesuffix(".gz").removesuffix(".json").removesuffix(".jsonl")
    return [_found(node, name) for node in nodes]


def _found(node: Node, name: str) -> Found:
    if not is_result(node):
        raise UsageError(f"{node.where} not a result of `vllm bench serve`")
    lost = list(LOST)
    requests: list[Request] = []
    if node.has(*LISTS):
        requests = requests_of(node)
        if node.get("start_times").value is None:
            lost.append(NO_STARTS)
    else:
        lost = [NO_DETAILS]
    load = load_of(node, len(requests))
    if load.is_open and node.get("max_concurrency").value and not node.has("queue_times"):
        lost.append(HIDDEN_WAIT)
    model = node.get("model_id").text() or "unknown"
    backend = node.get("backend").text() or "unknown"
    return Found(
        source=SOURCE,
        tool="vllm bench serve",
        tool_version=None,
        workload=name,
        stack=Stack(
            engine="openai",
            launcher="external",
            version=None,
            model=model,
            served_model=model,
            options={},
        ),
        load=load,
        requests=requests,
        stated=stated_of(node),
        lost=lost,
        notes=[f"vLLM's client, backend {backend}, finished {node.get('date').text() or '?'}"],
    )


def load_of(node: Node, num_requests: int) -> Load:
    """Return the asked load: a rate with or without a cap, or as many at once as the cap lets."""
    rate_node = node.get("request_rate")
    rate = None if rate_node.value in ("inf", None) else rate_node.number()
    intended = node.get("num_prompts").count() or num_requests
    is_ramp = node.get("ramp_up_strategy").value is not None
    return Load(
        is_open=rate is not None or is_ramp,
        concurrency=max(1, node.get("max_concurrency").count() or intended),
        rate_per_s=rate,
        num_intended=intended,
        # its delays are stretched so that the last request goes out at N / rate
        achieved_rate_is_meant=rate is not None and not node.get("max_concurrency").value,
    )


def stated_of(node: Node) -> list[Stated]:
    """Return what the tool printed, in its own units."""
    found = []
    for metric, ours in METRICS.items():
        for word, statistic in STATISTICS.items():
            value = _statistic(node.get(f"{word}_{metric}_ms"))
            if value is not None:
                found.append(
                    Stated(
                        name=f"{word}_{metric}_ms",
                        value=value,
                        unit="ms",
                        metric=ours,
                        statistic=statistic,
                        says=SAYS[metric],
                    )
                )
    for name, unit in (
        ("request_throughput", "requests/s"),
        ("output_throughput", "tokens/s"),
        ("duration", "s"),
    ):
        value = _statistic(node.get(name))
        if value is not None:
            says = "over the whole run, drain included" if name != "duration" else ""
            found.append(Stated(name=name, value=value, unit=unit, says=says))
    return found


def _statistic(node: Node) -> float | None:
    """Return a stated number; NaN, which the tool writes where it has no sample, is none."""
    return None if node.value != node.value else node.number()


def requests_of(node: Node, prefix: str = "", zero_s: float | None = None) -> list[Request]:
    """Return the requests of a detailed result, in the tool's order.

    zero_s: the run's start on the tool's counter; the first send where it is None.
    """
    columns = {name: node.get(name).items() for name in LISTS}
    starts = node.get("start_times")
    sent = starts.all_seconds() if starts.value is not None else None
    waits = node.get("queue_times")
    queued = waits.all_seconds() if waits.value is not None else None
    length = len(columns["ttfts"])
    named: dict[str, Sequence[object]] = dict(columns)
    named |= {"start_times": sent} if sent is not None else {}
    named |= {"queue_times": queued} if queued is not None else {}
    for name, column in named.items():
        if len(column) != length:
            raise UsageError(
                f"{node.where} `{name}` has {len(column)} entries and `ttfts` {length}: one of "
                "them is cut"
            )
    if zero_s is None:
        held = queued or [0.0] * length
        zero_s = min((s - w for s, w in zip(sent or [], held, strict=False)), default=0.0)
    has_role = node.get("backend").text() in ROLE_BACKENDS
    return [
        _request(
            {name: column[row] for name, column in columns.items()},
            f"{prefix}{row:05d}",
            sent_s=sent[row] - zero_s if sent is not None else None,
            wait_s=queued[row] if queued is not None else None,
            has_role=has_role,
        )
        for row in range(length)
    ]


def _request(
    row: dict[str, Node],
    request_id: str,
    *,
    sent_s: float | None,
    wait_s: float | None,
    has_role: bool,
) -> Request:
    error = row["errors"].text() or ""
    ttft, gaps = row["ttfts"].seconds(), row["itls"].all_seconds()
    output_tokens, prompt_tokens = row["output_lens"].count(), row["input_lens"].count()
    # a failed request is given the length 0; its reason may be an empty text
    is_ok = not error and bool(ttft) and bool(output_tokens)
    stamps = []
    if ttft:
        stamps = [ttft]
        for gap in gaps:
            stamps.append(stamps[-1] + gap)
    times = of_chunks(sent_s, stamps, output_tokens if is_ok else None, has_role=has_role)
    if not is_ok:
        times = failed(times)
    reasons = dict(NEVER_KEPT) | times.reasons
    reasons["cached_tokens"] = "the file does not keep it"
    reasons["output_tokens_source"] = "usage, else a tokenizer's count, else 1: the file says not"
    if sent_s is None:
        reasons["sent_s"] = reasons["intended_s"] = "the file has no start_times"
    return Request(
        request_id=request_id,
        status="ok" if is_ok else status_of(error),
        intended_s=sent_s - wait_s if sent_s is not None and wait_s is not None else None,
        sent_s=sent_s,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens if is_ok else None,
        error=None if is_ok else last_line(error) or "no chunk arrived",
        reasons=reasons,
        **times.values,
    )
