"""A gateway's log as a workload: the trace that can be sent again, and what traffic it is.

A line of the trace is one request: `at_s` from the first arrival, lengths in tokens, session, and
the ids of the prompt's blocks (equal id and place, equal text), where hashes or texts were given:

    {"at_s": 0.25, "prompt_tokens": 1200, "output_tokens": 80, "session": "s1", "hash_ids": [0, 1],
     "block_tokens": 64}
"""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, ClassVar, Final

from teardown.errors import UsageError
from teardown.imports.gateway import TEXT_BLOCK_CHARS, Log, LogRow
from teardown.imports.reuse import num_reusable
from teardown.records import Quantiles
from teardown.stats import quantiles

# Fewer intervals than this do not show a burstiness: its interval would span a factor of two.
FEWEST_INTERVALS: Final = 30
PEAK_WINDOW_S: Final = 10.0
# Sizes that engines and traces divide prompts by.
BLOCK_SIZES: Final = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a log says of the load. A value that cannot be known is None; `reasons` says why.

    rate_per_s: arrivals after the first over the time they took. interval_cv: standard deviation
    over mean of the times between arrivals, 1 for Poisson; burstiness: the shape 1/cv^2 of gamma
    arrivals like them. turns: requests a session; between_turns_s: from one arrival of a session to
    its next, answer included. reachable_prefix_ratio: prompt tokens that a cache of endless size
    would serve, in this order, an upper bound; served_prefix_ratio: those that the log says were.
    """

    SCHEMA: ClassVar[str] = "teardown.traffic/1"

    workload: str
    file: str
    columns: dict[str, str]
    num_arrivals: int
    num_requests: int
    duration_s: float
    rate_per_s: float | None
    peak_rate_per_s: float | None
    interval_cv: float | None
    burstiness: float | None
    prompt_tokens: Quantiles
    output_tokens: Quantiles
    num_sessions: int | None
    turns: Quantiles | None
    between_turns_s: Quantiles | None
    reachable_prefix_ratio: float | None
    served_prefix_ratio: float | None
    cannot_recover: list[str]
    reasons: dict[str, str]


def traffic_of(log: Log, workload: str, file: str) -> tuple[Traffic, list[dict[str, Any]]]:
    """Return the summary of `log` and the lines of its trace."""
    rows = [r for r in log.rows if r.input_tokens]
    lost = list(log.lost)
    if len(rows) < len(log.rows):
        lost.append(
            f"the lengths of {len(log.rows) - len(rows)} of {len(log.rows)} requests: they have no "
            "input tokens, count as arrivals and are not in the trace"
        )
    without = sum(r.output_tokens is None for r in rows)
    if without and "output_tokens" in log.columns:
        lost.append(f"the output length of {without} requests; they ask for one token")
    reasons: dict[str, str] = {}
    arrivals = [r.at_s for r in log.rows]
    duration_s = arrivals[-1] - arrivals[0]
    intervals = [b - a for a, b in pairwise(arrivals)]
    cv = _cv(intervals, reasons)
    block_tokens = _block_tokens(rows)
    reachable = _reachable(rows, block_tokens, reasons)
    known = [r for r in rows if r.cached_tokens is not None]
    sessions = _sessions(log.rows)
    traffic = Traffic(
        workload=workload,
        file=file,
        columns=dict(log.columns),
        num_arrivals=len(arrivals),
        num_requests=len(rows),
        duration_s=duration_s,
        rate_per_s=len(intervals) / duration_s if duration_s > 0 else None,
        peak_rate_per_s=_peak(arrivals) if duration_s >= PEAK_WINDOW_S else None,
        interval_cv=cv,
        burstiness=None if not cv else 1 / cv**2,
        prompt_tokens=quantiles([float(r.input_tokens or 0) for r in rows]),
        output_tokens=quantiles([float(r.output_tokens) for r in rows if r.output_tokens]),
        num_sessions=len(sessions) if sessions else None,
        turns=quantiles([float(len(s)) for s in sessions]) if sessions else None,
        between_turns_s=quantiles([b - a for s in sessions for a, b in pairwise(s)])
        if sessions
        else None,
        reachable_prefix_ratio=reachable,
        served_prefix_ratio=sum(r.cached_tokens or 0 for r in known)
        / sum(r.input_tokens or 0 for r in known)
        if known
        else None,
        cannot_recover=lost,
        reasons=reasons,
    )
    return traffic, _trace(rows, arrivals[0], block_tokens)


def trace_text(lines: Sequence[dict[str, Any]]) -> str:
    """Return the trace as JSON Lines."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def _cv(intervals: Sequence[float], reasons: dict[str, str]) -> float | None:
    if len(intervals) < FEWEST_INTERVALS:
        reasons["interval_cv"] = f"{len(intervals)} of {FEWEST_INTERVALS} intervals"
        return None
    mean = statistics.fmean(intervals)
    if mean <= 0:
        reasons["interval_cv"] = "all requests arrive at once"
        return None
    return statistics.pstdev(intervals) / mean


def _peak(arrivals: Sequence[float]) -> float:
    """Return the largest number of arrivals in PEAK_WINDOW_S, per second."""
    most, first = 0, 0
    for last, at_s in enumerate(arrivals):
        while at_s - arrivals[first] > PEAK_WINDOW_S:
            first += 1
        most = max(most, last - first + 1)
    return most / PEAK_WINDOW_S


def _sessions(rows: Sequence[LogRow]) -> list[list[float]]:
    """Return the arrivals of each session, in order; empty where no row names one."""
    named = [r for r in rows if r.session is not None]
    ordered = sorted(named, key=lambda r: (r.session or "", r.at_s))
    return [[r.at_s for r in group] for _, group in groupby(ordered, key=lambda r: r.session)]


def _block_tokens(rows: Sequence[LogRow]) -> int | None:
    """Return how many tokens a block has: as the log says, else the one size that fits every row.

    For texts: a block's characters over the log's own characters per token. None without blocks;
    UsageError where hashes fit no size or several.
    """
    hashed = [r for r in rows if r.blocks]
    if not hashed:
        return None
    said = {r.block_tokens for r in hashed if r.block_tokens}
    if said:
        if len(said) > 1:
            raise UsageError(f"the log has blocks of {', '.join(map(str, sorted(said)))} tokens")
        return said.pop()
    chars = sum(r.text_chars for r in hashed)
    if chars:
        tokens = sum(r.input_tokens or 0 for r in hashed)
        return max(1, round(TEXT_BLOCK_CHARS * tokens / chars))
    fits = [
        size
        for size in BLOCK_SIZES
        if all(
            (r.input_tokens or 0) // size
            <= len(r.blocks)
            <= math.ceil((r.input_tokens or 0) / size)
            for r in hashed
        )
    ]
    if len(fits) != 1:
        raise UsageError(
            f"{'no block size fits' if not fits else 'several block sizes fit'} the hashes and "
            "lengths of this log; say it with --map N=block_tokens, such as 64=block_tokens"
        )
    return fits[0]


def _reachable(
    rows: Sequence[LogRow], block_tokens: int | None, reasons: dict[str, str]
) -> float | None:
    if block_tokens is None:
        reasons["reachable_prefix_ratio"] = "the log has neither block hashes nor texts"
        return None
    seen: set[bytes] = set()
    served = total = 0
    for row in rows:
        if row.blocks:
            tokens = row.input_tokens or 0
            served += min(num_reusable(row.blocks, seen) * block_tokens, tokens)
            total += tokens
    return served / total


def _trace(
    rows: Sequence[LogRow], start_s: float, block_tokens: int | None
) -> list[dict[str, Any]]:
    ids: dict[tuple[int, str], int] = {}
    session_ids: dict[str, str] = {}
    lines = []
    for row in rows:
        line: dict[str, Any] = {
            "at_s": round(row.at_s - start_s, 6),
            "prompt_tokens": row.input_tokens,
            "output_tokens": row.output_tokens or 1,
        }
        if row.session is not None:
            line["session"] = session_ids.setdefault(row.session, f"s{len(session_ids) + 1}")
        if row.blocks and block_tokens:
            line["hash_ids"] = [ids.setdefault(key, len(ids)) for key in _keys(row.blocks)]
            line["block_tokens"] = block_tokens
        lines.append(line)
    return lines


def _keys(blocks: Sequence[str]) -> list[tuple[int, str]]:
    """Return a key for each block: its place and its hash or text."""
    return list(enumerate(blocks))
