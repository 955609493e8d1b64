"""The requests of one run as arrays, and what ran, waited and decoded at every moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from teardown.records import Request

Array = NDArray[np.float64]
# Moments at which the load is looked at; a run of minutes is then resolved to tens of ms.
NUM_MOMENTS = 4000


class Gaps(NamedTuple):
    """Time between the chunks of all answers: start and end (run clock), and whose (row)."""

    start: Array
    end: Array
    owner: NDArray[np.int64]

    @property
    def length(self) -> Array:
        """Seconds of each gap."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Completed requests as columns; run clock, seconds. `first` equals `end` where no chunk
    stands alone (then `has_first` is False)."""

    requests: list[Request]
    total: Array
    client_wait: Array
    sent: Array
    first: Array
    end: Array
    has_first: NDArray[np.bool_]
    prompt_tokens: Array
    output_tokens: Array
    cached_tokens: Array
    gaps: Gaps

    @property
    def ttft(self) -> Array:
        """Sent to first content; 0 where unknown."""
        return np.where(self.has_first, self.first - self.sent, 0.0)

    @property
    def decode(self) -> Array:
        """First to last content; 0 where unknown."""
        return np.where(self.has_first, self.end - self.first, 0.0)


def timeline(requests: Sequence[Request]) -> Timeline:
    """Return the complete requests of `requests` that have a measured E2E above zero."""
    kept = [r for r in requests if not r.is_failed and r.e2e_s is not None and r.e2e_s > 0]
    sent = _column([r.sent_s if r.sent_s is not None else r.intended_s or 0.0 for r in kept])
    e2e = _column([r.e2e_s for r in kept])
    wait = _column([max(r.client_wait_s or 0.0, 0.0) for r in kept])
    ttft = _column([r.ttft_s for r in kept])
    has_first = ~np.isnan(ttft) & (ttft <= e2e)
    output = [r.output_tokens or len(r.chunk_s) or 1 for r in kept]
    return Timeline(
        requests=kept,
        total=wait + e2e,
        client_wait=wait,
        sent=sent,
        first=np.where(has_first, sent + np.nan_to_num(ttft), sent + e2e),
        end=sent + e2e,
        has_first=has_first,
        prompt_tokens=_column([r.prompt_tokens for r in kept]),
        output_tokens=_column(output),
        cached_tokens=_column([_cached(r) for r in kept]),
        gaps=_gaps(kept),
    )


def _cached(request: Request) -> int | None:
    if request.cached_tokens is not None:
        return request.cached_tokens
    return request.server.cached_tokens if request.server else None


def _column(values: Sequence[float | None]) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _gaps(requests: Sequence[Request]) -> Gaps:
    starts, ends, owners = [], [], []
    for row, request in enumerate(requests):
        chunks = np.sort(np.array(request.chunk_s, dtype=np.float64))
        if len(chunks) > 1:
            starts.append(chunks[:-1])
            ends.append(chunks[1:])
            owners.append(np.full(len(chunks) - 1, row, dtype=np.int64))
    if not starts:
        return Gaps(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
    return Gaps(np.concatenate(starts), np.concatenate(ends), np.concatenate(owners))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the stack held at moments `t`: counts of waiting, prefilling and decoding requests, and
    the context tokens of the decoding ones."""

    t: Array
    waiting: Array
    prefilling: Array
    decoding: Array
    context_tokens: Array

    @property
    def executing(self) -> Array:
        """Requests that hold a slot."""
        return self.prefilling + self.decoding

    def integral(self, indicator: Array) -> Array:
        """Return the running integral of `indicator` over `t`, to be interpolated at any time."""
        step = np.diff(self.t, prepend=self.t[0])
        return np.asarray(np.cumsum(indicator * step), dtype=np.float64)


def load(line: Timeline, executed: Array) -> Load:
    """Return the load over time; `executed` is when each request began to be executed."""
    t = np.linspace(float(line.sent.min()), float(line.end.max()), NUM_MOMENTS)
    rate = line.output_tokens / np.maximum(line.end - line.first, 1e-9)
    base = np.nan_to_num(line.prompt_tokens) - rate * line.first
    decodes = line.has_first & (line.end > line.first)
    first, end = line.first[decodes], line.end[decodes]
    return Load(
        t=t,
        waiting=_count(t, line.sent, executed),
        prefilling=_count(t, executed, line.first),
        decoding=_count(t, first, end),
        context_tokens=np.maximum(
            _sum(t, first, end, base[decodes]) + t * _sum(t, first, end, rate[decodes]), 0.0
        ),
    )


def _count(t: Array, start: Array, end: Array) -> Array:
    return _sum(t, start, end, np.ones_like(start))


def _sum(t: Array, start: Array, end: Array, weight: Array) -> Array:
    """Return the sum of `weight` over the spans [start, end) that hold each moment."""
    return _reached(t, start, weight) - _reached(t, end, weight)


def _reached(t: Array, when: Array, weight: Array) -> Array:
    order = np.argsort(when)
    sums = np.concatenate([[0.0], np.cumsum(weight[order])])
    return np.asarray(sums[np.searchsorted(when[order], t, side="right")], dtype=np.float64)
