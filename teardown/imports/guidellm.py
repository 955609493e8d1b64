"""GuideLLM's report: one JSON file, one benchmark for each rate or number of streams.

Read on files and sources of GuideLLM 0.8.1 (report schema version 2). Times are Unix seconds by
time.time(). Texts of requests and answers stand in the file; of an answer only its hash is kept.
"""

import hashlib
from pathlib import Path
from typing import Final

from teardown.errors import UsageError
from teardown.imports.document import Node, parse, read_node
from teardown.imports.found import Found, Load, Stated
from teardown.imports.reuse import reusable_ratio
from teardown.imports.times import (
    NEVER_KEPT,
    NO_GAPS,
    ONE_PIECE,
    UNFINISHED,
    Times,
    failed,
    last_line,
    pace_of,
    status_of,
)
from teardown.records import Request, Segment, Stack

SOURCE: Final = "guidellm"
# Strategies that give every request a time of its own; the others send when a stream is free.
TIMED: Final = ("constant", "poisson", "trace")
STATED: Final = (
    ("time_to_first_token_ms", "ms", "ttft_s", "to the first content or reasoning chunk"),
    ("time_per_output_token_ms", "ms", "tpot_s", "(last token - start) / tokens: TTFT is in it"),
    ("inter_token_latency_ms", "ms", "tpot_s", "(last - first) / (tokens - 1), mean per request"),
    ("request_latency", "s", "e2e_s", "to the end of the stream, not to the last content"),
)
LOST: Final = [
    "when each chunk came: only the first and the last token have a time, and the timeline that "
    "GuideLLM shows between them is evenly spaced; gaps, stalls and the longest gap are not known",
    "when a chunk reached the host: there are no kernel stamps, so whether the client was late "
    "(client_limited) cannot be judged",
    "a step of the wall clock: all its times are by time.time(), so one moves them all",
    "the finish reason and whether a stream ended as it should",
]
NOTE: Final = (
    "GuideLLM's TPOT divides the whole latency, TTFT included, by all tokens; the TPOT here is "
    "recomputed from the first and the last token"
)


def recognises(node: Node) -> bool:
    """True for a report of GuideLLM."""
    return node.has("metadata", "benchmarks") and isinstance(node.value["benchmarks"], list)


def read(path: Path) -> list[Found]:
    """Return one run for each benchmark of the report; UsageError names the place."""
    report = read_node(path)
    version = report.get("metadata").get("guidellm_version").text()
    schema = report.get("metadata").get("version").count()
    if schema != 2:
        raise UsageError(f"{path}: report schema {schema}; version 2 (GuideLLM 0.8) can be read")
    benchmarks = report.get("benchmarks").items()
    if not benchmarks:
        raise UsageError(f"{path}: the report holds no benchmark")
    return [_found(node, version) for node in benchmarks]


def _found(node: Node, version: str | None) -> Found:
    config = node.get("config")
    strategy = config.get("strategy")
    kind = strategy.get("type_").text() or "unknown"
    groups = {
        name: node.get("requests").get(name).items()
        for name in ("successful", "errored", "incomplete")
    }
    rows = [(row, name) for name, group in groups.items() for row in group]
    zero = _zero([row for row, _ in rows], is_timed=kind in TIMED)
    requests = [_request(row, name, zero, is_timed=kind in TIMED) for row, name in rows]
    made = node.get("scheduler_metrics").get("requests_made").get("total").count()
    end = node.get("scheduler_metrics").get("end_time").number() or zero
    lost = list(LOST)
    if made is not None and made > len(requests):
        lost.insert(
            0,
            f"{made - len(requests)} of {made} requests: they are not in the report, which holds a "
            "sample, or were never sent",
        )
    if not requests:
        lost = ["every request: the report holds aggregates alone"]
    backend = config.get("backend")
    model = backend.get("model").text() or "unknown"
    return Found(
        source=SOURCE,
        tool="GuideLLM",
        tool_version=version,
        workload=_name(strategy, kind),
        stack=Stack(
            engine="openai",
            launcher="external",
            version=None,
            model=model,
            served_model=model,
            options={},
        ),
        load=_load(strategy, kind, len(requests)),
        requests=sorted(requests, key=lambda r: r.sent_s or 0.0),
        segments=[Segment(started_unix_s=zero, ended_unix_s=max(end, zero), ended="complete")]
        if requests
        else [],
        stated=_stated(node.get("metrics")),
        lost=lost,
        notes=[NOTE] if requests else [],
        reusable_ratio=_reusable([row for row, name in rows if name == "successful"]),
        url=backend.get("target").text(),
    )


def _name(strategy: Node, kind: str) -> str:
    level = strategy.get("rate").number() or strategy.get("streams").count()
    return f"guidellm-{kind}" + (f"-{level:g}" if level else "")


def _load(strategy: Node, kind: str, num_requests: int) -> Load:
    cap = strategy.get("streams").count() or strategy.get("max_concurrency").count()
    if kind == "synchronous":
        cap = 1
    return Load(
        is_open=kind in TIMED,
        concurrency=max(1, cap or num_requests),
        is_asked=cap is not None,
        rate_per_s=strategy.get("rate").number() if kind in TIMED else None,
        num_intended=num_requests,
    )


def _zero(rows: list[Node], *, is_timed: bool) -> float:
    """Return the run's start: the first send, or the first intended time where there are such."""
    names = ("request_start", "targeted_start") if is_timed else ("request_start",)
    times = [row.get("info").get("timings") for row in rows]
    known = [at for t in times for name in names if (at := t.get(name).seconds()) is not None]
    return min(known, default=0.0)


def _request(row: Node, group: str, zero: float, *, is_timed: bool) -> Request:
    info = row.get("info")
    timings = info.get("timings")
    start = timings.get("request_start").seconds()
    intended = timings.get("targeted_start").seconds() if is_timed else None
    tokens = row.get("output_metrics").get("total_tokens").count()
    request_id = row.get("request_id").text()
    if not request_id:
        raise UsageError(f"{row.where}.request_id is missing")
    error = info.get("error").text() or ""
    if group == "successful":
        status = "ok" if tokens or timings.get("token_iterations").count() else "empty"
    elif group == "incomplete":
        status = "unsent" if start is None else "aborted"
    else:
        status = status_of(error)
    times = _times(timings, start, tokens)
    reasons = dict(NEVER_KEPT) | times.reasons
    if start is None:
        reasons["sent_s"] = "it was never sent"
    text = row.get("output").text()
    return Request(
        request_id=request_id,
        status=status,  # type: ignore[arg-type]  # every branch gives one of the literals
        session=info.get("conversation_id").text(),
        turn=info.get("turn_index").count() or 0,
        worker=str(info.get("scheduler_node_id").number() or 0),
        intended_s=None if intended is None else intended - zero,
        sent_s=None if start is None else start - zero,
        prompt_tokens=row.get("input_metrics").get("total_tokens").count(),
        cached_tokens=row.get("input_metrics").get("cached_tokens").count(),
        output_tokens=tokens if status == "ok" else None,
        output_tokens_source="usage" if status == "ok" and tokens is not None else None,
        text_sha256=hashlib.sha256(text.encode(errors="replace")).hexdigest() if text else None,
        error=None if status == "ok" else last_line(error) or UNFINISHED,
        reasons=reasons if status == "ok" else reasons | failed(times).reasons,
        **(times if status == "ok" else failed(times)).values,
    )


def _times(timings: Node, start: float | None, tokens: int | None) -> Times:
    first = timings.get("first_token_iteration").seconds()
    last = timings.get("last_token_iteration").seconds()
    end = timings.get("request_end").seconds()
    names = ("ttft_s", "ttfo_s", "tpot_s", "max_gap_s", "first_chunk_tokens")
    if start is None:
        return Times({}, dict.fromkeys((*names, "e2e_s"), "it was never sent"))
    for name, value in (("first_token_iteration", first), ("request_end", end)):
        if value is not None and value < start:
            timings.get(name).fail("a time after request_start")
    if first is None or last is None or (first == last and (tokens or 0) > 1):
        e2e = None if end is None else end - start
        why = {} if e2e is not None else {"e2e_s": UNFINISHED}
        return Times({"e2e_s": e2e}, dict.fromkeys(names, ONE_PIECE) | why)
    if last < first:
        timings.get("last_token_iteration").fail("a time after first_token_iteration")
    answered = timings.get("first_output_token_iteration").seconds()
    values = {
        "ttft_s": first - start,
        "ttfo_s": None if answered is None else max(answered - start, 0.0),
        "e2e_s": last - start,
    }
    reasons = {"max_gap_s": NO_GAPS, "chunk_s": NO_GAPS}
    if answered is None:
        reasons["ttfo_s"] = "no answer text arrived"
    pace = pace_of(first, last, timings.get("token_iterations").count(), tokens)
    return Times(values | pace.values, reasons | pace.reasons)


def _stated(metrics: Node) -> list[Stated]:
    found = []
    for name, unit, metric, says in STATED:
        summary = metrics.get(name).get("successful")
        for statistic, node in (
            ("mean", summary.get("mean")),
            ("p50", summary.get("median")),
            ("p99", summary.get("percentiles").get("p99")),
        ):
            value = node.number()
            if value is not None and summary.get("count").value != 0:
                found.append(
                    Stated(
                        name=f"{statistic} {name}",
                        value=value,
                        unit=unit,
                        metric=metric,
                        statistic=statistic,
                        says=says,
                    )
                )
    for name, unit in (("requests_per_second", "requests/s"),
                       ("output_tokens_per_second", "tokens/s")):  # fmt: skip
        value = metrics.get(name).get("successful").get("mean").number()
        if value is not None:
            found.append(Stated(name=f"mean {name}", value=value, unit=unit))
    return found


def _reusable(rows: list[Node]) -> float | None:
    """Return the fraction of prompt text that the run's own prompts repeat; None without texts."""
    texts = []
    for row in sorted(
        rows, key=lambda r: r.get("info").get("timings").get("request_start").number() or 0.0
    ):
        arguments = row.get("request_args").text()
        if arguments is None:
            return None
        body = parse(arguments, f"{row.where}.request_args:").get("body")
        texts.append(_prompt_text(body))
    return reusable_ratio(texts)


def _prompt_text(body: Node) -> str:
    """Return what a prefix cache would see of a request, roles included."""
    if body.has("prompt"):
        return str(body.get("prompt").value)
    parts = []
    for message in body.get("messages").items():
        content = message.get("content")
        texts = (
            [str(part.get("text").value or "") for part in content.items()]
            if isinstance(content.value, list)
            else [str(content.value or "")]
        )
        parts.append(f"{message.get('role').value}: {''.join(texts)}")
    return "\n".join(parts)
