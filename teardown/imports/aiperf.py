"""AIPerf's exports: profile_export.jsonl, one request a line, and profile_export_aiperf.json.

Read on files and sources of AIPerf 0.13.0. Metrics carry their unit; stamps are Unix nanoseconds by
time.time_ns(), lengths of time by a monotonic counter. Either file is read alone too: the lines
without the asked load, the summary as stated numbers.
"""

from pathlib import Path
from typing import Final

from teardown.errors import UsageError
from teardown.imports.document import Node, read_lines, read_node
from teardown.imports.found import Found, Load, Stated
from teardown.imports.times import NEVER_KEPT, failed, last_line, of_chunks, status_of
from teardown.records import Request, Segment, Stack, Status

SOURCE: Final = "aiperf"
LINES: Final = "profile_export.jsonl"
SUMMARY: Final = "profile_export_aiperf.json"
NANO: Final = 1e-9
SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
STATED: Final = (
    ("time_to_first_token", "ttft_s", "from before connecting, to the first chunk with content"),
    ("inter_token_latency", "tpot_s", "(latency - TTFT) / (tokens - 1)"),
    ("request_latency", "e2e_s", "from before connecting, to the last chunk with content"),
)
RATED: Final = ("constant", "poisson", "gamma")
# httpx and aiohttp name the failure; a code is the server's own word.
REFUSING: Final = (429, 503)
LOST: Final = [
    "when a chunk reached the host: there are no kernel stamps, so whether the client was late "
    "(client_limited) cannot be judged",
    "the finish reason and whether a stream ended as it should",
    "a step of the wall clock: requests are placed in time by time.time_ns()",
]
NO_INTENDED: Final = (
    "when the schedule wanted each request: AIPerf keeps when its credit was issued, and moves a "
    "schedule that has slipped, so latency from intended is not known"
)
NO_TRACE: Final = (
    "connecting: the lines have no trace of the connection, and TTFT and E2E begin before it"
)


def recognises(node: Node) -> bool:
    """True for the first object of either file."""
    return node.has("aiperf_version") or (
        node.has("metadata", "metrics") and node.get("metadata").has("request_start_ns")
    )


def read(path: Path) -> list[Found]:
    """Return the run of an export folder, or of one of its files; UsageError names the place."""
    folder = path if path.is_dir() else path.parent
    lines = path / LINES if path.is_dir() else path
    summary_path = folder / SUMMARY
    summary = Node(None, f"{summary_path}:")
    if not path.is_dir() and read_first(path).has("aiperf_version"):
        summary_path, lines = path, folder / "none"
    if summary_path.exists():
        summary = read_node(summary_path)
    rows = list(read_lines(lines)) if lines.exists() else []
    if not rows and summary.value is None:
        raise UsageError(f"{path} holds neither {LINES} nor {SUMMARY} with any content")
    return [_found(rows, summary, folder.name if path.is_dir() else lines.stem)]


def read_first(path: Path) -> Node:
    """Return the first object of a JSON or JSON Lines file."""
    try:
        return read_node(path)
    except UsageError:
        return next(read_lines(path), Node(None, f"{path}:"))


def _found(rows: list[Node], summary: Node, name: str) -> Found:
    kept = [row for row in rows if row.get("metadata").get("benchmark_phase").text() != "warmup"]
    zero_ns = min((_start_ns(row) for row in kept), default=0)
    requests = [_request(row, zero_ns) for row in kept]
    ends = [row.get("metadata").get("request_end_ns").nanoseconds() or zero_ns for row in kept]
    config = summary.get("input_config")
    load, kind = _load(config, requests)
    notes = []
    if len(rows) > len(kept):
        notes.append(f"{len(rows) - len(kept)} requests of the warm-up are left out")
    lost = list(LOST)
    if kind in (*RATED, "user_centric", "fixed_schedule"):
        lost.append(NO_INTENDED)
    if any(r.connect_s is None and "trace" in r.reasons.get("connect_s", "") for r in requests):
        lost.append(NO_TRACE)
    if summary.value is None:
        lost.append(f"the asked load and the model: {SUMMARY} is not beside the lines")
    if not requests:
        lost = [f"every request: {LINES} is not there, and the summary holds aggregates alone"]
    models = config.get("models").get("items").items()
    model = (models[0].get("name").text() if models else None) or "unknown"
    urls = config.get("endpoint").get("urls").items()
    return Found(
        source=SOURCE,
        tool="AIPerf",
        tool_version=summary.get("aiperf_version").text(),
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
        requests=sorted(requests, key=lambda r: r.sent_s or 0.0),
        segments=[
            Segment(
                started_unix_s=zero_ns * NANO,
                ended_unix_s=max([zero_ns, *ends]) * NANO,
                ended="interrupted" if summary.get("was_cancelled").value is True else "complete",
            )
        ]
        if requests
        else [],
        stated=_stated(summary),
        lost=lost,
        notes=notes,
        url=urls[0].text() if urls else None,
    )


def _load(config: Node, requests: list[Request]) -> tuple[Load, str]:
    """Return the asked load of the measured phase and its kind; without one, what was in flight."""
    phases = [p for p in config.get("phases").items() if p.get("kind").text() != "warmup"]
    phase = phases[0] if phases else Node(None, f"{config.where}.phases[0]")
    kind = phase.get("type").text() or "unknown"
    cap = phase.get("concurrency").count()
    return (
        Load(
            is_open=kind in (*RATED, "fixed_schedule"),
            concurrency=max(1, cap or _peak(requests)),
            is_asked=cap is not None,
            rate_per_s=phase.get("rate").number(),
            num_intended=None,
            achieved_rate_is_meant=kind == "constant" and cap is None,
        ),
        kind,
    )


def _peak(requests: list[Request]) -> int:
    edges = sorted(
        edge
        for r in requests
        if r.sent_s is not None
        for edge in ((r.sent_s, 1), (r.sent_s + (r.e2e_s or 0.0), -1))
    )
    peak = now = 0
    for _, step in edges:
        now += step
        peak = max(peak, now)
    return peak


def _start_ns(row: Node) -> int:
    node = row.get("metadata").get("request_start_ns")
    found = node.nanoseconds()
    if found is None:
        raise UsageError(f"{node.where} is missing")
    return found


def _request(row: Node, zero_ns: int) -> Request:
    metadata, metrics, error = row.get("metadata"), row.get("metrics"), row.get("error")
    request_id = metadata.get("x_request_id").text()
    if not request_id:
        raise UsageError(f"{metadata.where}.x_request_id is missing")
    status = _status(metadata, metrics, error)
    connecting = _seconds(metrics, "http_req_connection_overhead")
    before_s = connecting or 0.0
    sent_s = (_start_ns(row) - zero_ns) * NANO + before_s
    tokens = _tokens(metrics, "usage_completion_tokens", "output_sequence_length")
    times = of_chunks(sent_s, _stamps(metrics, before_s), tokens, has_role=False)
    ttfo = _seconds(metrics, "time_to_first_output_token")
    if ttfo is not None and times.values.get("ttft_s") is not None:
        times.values["ttfo_s"] = max(ttfo - before_s, 0.0)
        times.reasons.pop("ttfo_s", None)
    is_ok = status == "ok"
    times = times if is_ok else failed(times)
    reasons = dict(NEVER_KEPT) | times.reasons
    if connecting is None:
        reasons["connect_s"] = "the lines have no trace of the connection"
    elif not connecting:
        reasons["connect_s"] = "a kept-alive connection was used"
    else:
        reasons.pop("connect_s")
    reasons["intended_s"] = "the file keeps when a credit was issued, not the schedule's time"
    usage = metrics.get("usage_completion_tokens").value is not None
    message = error.get("message").text() if error.value is not None else None
    return Request(
        request_id=request_id,
        status=status,
        http_status=_code(error),
        session=metadata.get("x_correlation_id").text(),
        turn=metadata.get("turn_index").count() or 0,
        worker=metadata.get("worker_id").text() or "0",
        connect_s=connecting or None,
        sent_s=sent_s,
        prompt_tokens=_tokens(metrics, "usage_prompt_tokens", "input_sequence_length"),
        cached_tokens=_tokens(metrics, "usage_prompt_cache_read_tokens"),
        reasoning_tokens=_tokens(metrics, "usage_reasoning_tokens"),
        output_tokens=tokens if is_ok else None,
        output_tokens_source=None
        if tokens is None or not is_ok
        else ("usage" if usage else "tokenizer"),
        error=None if is_ok else last_line(message or "") or "no content arrived",
        reasons=reasons,
        **times.values,
    )


def _status(metadata: Node, metrics: Node, error: Node) -> Status:
    if metadata.get("was_cancelled").value is True:
        return "aborted"
    if error.value is not None:
        if _code(error) in REFUSING:
            return "refused"
        return status_of(f"{error.get('type').text() or ''} {error.get('message').text() or ''}")
    return "ok" if metrics.get("request_latency").value is not None else "empty"


def _code(error: Node) -> int | None:
    code = error.get("code").count()
    return code if code is not None and 100 <= code <= 599 else None


def _stamps(metrics: Node, before_s: float) -> list[float]:
    """Return the chunk times after the send; without TTFT the end alone, a reply in one piece."""
    first = _seconds(metrics, "time_to_first_token")
    last = _seconds(metrics, "request_latency")
    if first is None:
        return [] if last is None else [max(last - before_s, 0.0)]
    gaps = metrics.get("inter_chunk_latency")
    scale = _scale(gaps)
    stamps = [max(first - before_s, 0.0)]
    for gap in gaps.get("value").all_seconds():
        stamps.append(stamps[-1] + gap * scale)
    return stamps


def _scale(metric: Node) -> float:
    """Return the seconds of a metric's unit; UsageError where it is no unit of time."""
    unit = metric.get("unit").text()
    if metric.value is not None and unit not in SECONDS:
        metric.get("unit").fail(f"one of {', '.join(SECONDS)}")
    return SECONDS[unit or "s"]


def _seconds(metrics: Node, name: str) -> float | None:
    metric = metrics.get(name)
    value = metric.get("value").seconds()
    return None if value is None else value * _scale(metric)


def _tokens(metrics: Node, *names: str) -> int | None:
    """Return the first of these counts that there is."""
    for name in names:
        found = metrics.get(name).get("value").count()
        if found is not None:
            return found
    return None


def _stated(summary: Node) -> list[Stated]:
    found = []
    for name, metric, says in STATED:
        block = summary.get(name)
        for key, statistic in (("avg", "mean"), ("p50", "p50"), ("p99", "p99")):
            value = block.get(key).number()
            if value is not None:
                found.append(
                    Stated(
                        name=f"{key} {name}",
                        value=value,
                        unit=block.get("unit").text() or "",
                        metric=metric,
                        statistic=statistic,
                        says=says,
                    )
                )
    for name in ("request_throughput", "output_token_throughput", "benchmark_duration"):
        value = summary.get(name).get("avg").number()
        if value is not None:
            unit = summary.get(name).get("unit").text() or ""
            found.append(Stated(name=name, value=value, unit=unit))
    return found
