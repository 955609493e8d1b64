"""Divide a plain decode step by what it must read: weights, cache, and what neither explains.

A step cannot be shorter than its bytes over the device's read bandwidth. Well-made kernels reach
60 % or more of what a plain copy reads, so a step up to bytes / (0.6 bandwidth) is bandwidth; only
the time above that can be the host's, and only where the options say why (no CUDA graphs).
"""

from typing import NamedTuple

from teardown.classify import options as opt
from teardown.classify.data import RunData
from teardown.classify.findings import Findings
from teardown.classify.ledger import Entry
from teardown.classify.timeline import Load

# DEFINITIONS.md, "Attribution": kv_bandwidth needs 0.6 of the measured read bandwidth.
MIN_BANDWIDTH_RATIO = 0.6
# Engines whose options can switch CUDA graphs off; elsewhere a slow step is never the host's.
GRAPH_ENGINES = frozenset({"vllm", "sglang"})


class Step(NamedTuple):
    """A plain step by its terms: entry -> fraction of the step (above 1 in sum: overshoot).

    batch: sequences that decode together, as a decoding request sees it; per replica. is_bounded
    says whether a bound by bytes was there to compare with.
    """

    parts: dict[Entry, float]
    step_s: float | None
    batch: float
    context_tokens: float
    is_bounded: bool

    @property
    def cache_ratio(self) -> float:
        """Fraction of the step that reads the cache."""
        return sum(v for e, v in self.parts.items() if e.time_class == "kv_bandwidth")


def plain_step(
    data: RunData, held: Load, step_s: float | None, prompt_rate: float | None, found: Findings
) -> Step:
    """Return the parts of a step of `step_s`; prompt_rate: prompt tokens per engine second."""
    weight = held.decoding.sum()
    batch = float((held.decoding**2).sum() / weight) if weight > 0 else 0.0
    context = float((held.decoding * held.context_tokens).sum() / weight) if weight > 0 else 0.0
    batch, context = batch / data.num_replicas, context / data.num_replicas
    bare = Step({}, step_s, batch, context, False)
    if step_s is None or step_s <= 0 or batch < 1e-9:
        return bare
    model, hardware = data.model, data.hardware
    weights = model.streamed_bytes(batch) if model else None
    cache = model.kv_bytes(context / batch) if model else None
    if weights is None or cache is None:
        why = "; ".join((model.reasons if model else {}).values()) or "no model file was read"
        found.notes.append(f"Weight and cache reads cannot be told apart: {why}.")
        return bare
    cache *= batch
    found.saw("weights read per step", weights, "bytes", model.source if model else "", "streamed")
    found.saw(
        "cache read per step", cache, "bytes", "client", f"batch {batch:.1f}, {context:.0f} tokens"
    )
    bandwidth = hardware.read_bandwidth_bytes_per_s if hardware else None
    if bandwidth is None or hardware is None:
        if _may_be_host(data, batch, found):
            found.notes.append(
                "No read bandwidth is known, and the host may be late: a plain step cannot be "
                "divided into reading and waiting for the host."
            )
            return bare
        found.doubt(0.7, "no read bandwidth is known: weights and cache by bytes, host unseen")
        return Step(
            _by_bytes(weights, cache, 1.0, ("weights_bandwidth", "kv_bandwidth")),
            step_s,
            batch,
            context,
            False,
        )
    if hardware.how == "datasheet":
        found.doubt(0.95, "the read bandwidth is the datasheet's, not measured")
    reached = (weights + cache) / step_s / bandwidth
    found.saw(
        "read bandwidth reached",
        reached,
        "ratio",
        f"{hardware.source}, chunk gaps",
        f"{(weights + cache) / step_s:.3g} of {bandwidth:.3g} bytes/s",
        "decode",
    )
    parts = _parts(data, weights, cache, reached, step_s, batch, prompt_rate, found)
    return Step(parts, step_s, batch, context, True)


def _parts(
    data: RunData,
    weights: float,
    cache: float,
    reached: float,
    step_s: float,
    batch: float,
    prompt_rate: float | None,
    found: Findings,
) -> dict[Entry, float]:
    by_bandwidth = ("weights_bandwidth", "kv_bandwidth")
    if reached >= MIN_BANDWIDTH_RATIO:
        return _by_bytes(weights, cache, max(reached, 1.0), by_bandwidth)
    explained = reached / MIN_BANDWIDTH_RATIO
    host = _host_cause(data, batch, found)
    if host is not None:
        found.saw(
            "step above what its bytes take",
            (1 - explained) * step_s,
            "s",
            "step model",
            f"step {step_s:.4g} s, bytes at {MIN_BANDWIDTH_RATIO:.0%} of bandwidth "
            f"{explained * step_s:.4g} s",
            host,
        )
        return {
            **_by_bytes(weights, cache, explained, by_bandwidth),
            Entry("host", host): 1 - explained,
        }
    engine = data.run.target.engine
    if engine in GRAPH_ENGINES and not data.options:
        found.notes.append(
            "The step is longer than its bytes explain and the engine's options are unknown: "
            "whether the host is late cannot be told."
        )
        return _by_bytes(weights, cache, explained, by_bandwidth)
    compute = min(batch / prompt_rate / step_s, 1.0) if prompt_rate else 0.0
    if compute > reached:
        found.saw(
            "computing the step's tokens at the prompt's rate",
            compute,
            "ratio",
            "prefill rate of this run",
            "of a plain step; more than its reads",
            "decode_compute",
        )
        rest = _by_bytes(weights, cache, 1.0 - compute, ("kernel_inefficient",) * 2)
        return {**rest, Entry("decode", "decode_compute"): compute}
    found.doubt(0.9, "below 60 % of the read bandwidth with no host gap in the options")
    return _by_bytes(weights, cache, 1.0, ("kernel_inefficient", "kernel_inefficient"))


def _by_bytes(
    weights: float, cache: float, whole: float, causes: tuple[str, ...]
) -> dict[Entry, float]:
    ratio = weights / (weights + cache)
    return {
        Entry("decode", causes[0]): ratio * whole,
        Entry("kv_bandwidth", causes[1]): (1 - ratio) * whole,
    }


def _may_be_host(data: RunData, batch: float, found: Findings) -> bool:
    """True when the options say that the host launches every kernel, or are not known."""
    if data.run.target.engine in GRAPH_ENGINES and not data.options:
        return True
    return _host_cause(data, batch, found) is not None


def _host_cause(data: RunData, batch: float, found: Findings) -> str | None:
    """Return why the host launches every kernel of a step, where the options say so."""
    if data.run.target.engine not in GRAPH_ENGINES:
        return None
    if opt.is_eager(data.options):
        found.saw("CUDA graphs", 0, "switch", "options", "switched off", "eager_mode")
        return "eager_mode"
    largest = opt.largest_graph(data.options)
    if largest is not None and batch > largest:
        says = f"{batch:.0f} sequences decode together"
        found.saw("largest graph", largest, "sequences", "options", says, "graph_coverage")
        return "graph_coverage"
    return None
