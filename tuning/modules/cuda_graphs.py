"""Kernels launched one by one from Python, where a recorded graph would launch them at once."""

from teardown.records import Candidate, Estimate, LeftAlone
from tuning.context import PlanContext
from tuning.prediction import amdahl, unsupported

# What graphs bring where the diagnosis is silent: nothing on a large batch, up to this on a small
# one (25 to 133 tok/s in vllm#37865 is a far end; InferenceX and forum cases lie at 1.2 to 2).
SILENT_HIGH = 2.0
SILENT_VALUE = 1.1
# Removing eager launches takes the host's gaps out whole; padding to a graph size gives some back.
LIKELY_PART = 0.8
# vLLM captures for at most this many tokens by default (1024 on sm_100; config/vllm.py, 0.33).
DEFAULT_MAX_CAPTURE = 512


class CudaGraphs:
    """`enforce-eager` and the capture sizes of vLLM; llama.cpp captures by itself."""

    name = "cuda_graphs"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return graphs switched on, or captured for the batches that really run."""
        if context.stack.engine != "vllm":
            return []
        if context.is_on("enforce-eager", False):
            return [_graphs_on(context)]
        return _coverage(context)

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return the graph policy where every batch of this workload has a graph."""
        if context.stack.engine != "vllm" or context.is_on("enforce-eager", False):
            return []
        covered = context.number("max-cudagraph-capture-size") or DEFAULT_MAX_CAPTURE
        if context.concurrency > covered:
            return []
        because = f"graphs exist up to {covered} tokens; {context.concurrency} requests run at most"
        return [LeftAlone(setting="enforce-eager", value="off", because=because)]


def _graphs_on(context: PlanContext) -> Candidate:
    return Candidate(
        candidate="graphs-on",
        title="Run decode steps from CUDA graphs instead of eagerly",
        lever=CudaGraphs.name,
        changes={"enforce-eager": None},
        predicted=_prediction(context, "eager_mode"),
        reason="enforce-eager launches every kernel from Python; the GPU waits between them",
        cause="eager_mode" if context.cause("eager_mode") else None,
        risk="low",
        changes_answers=None,
        watch="start-up time (compilation and capture), memory for the graphs, and the cache "
        "that is left",
        undo="enforce-eager true",
    )


def _coverage(context: PlanContext) -> list[Candidate]:
    covered = context.number("max-cudagraph-capture-size") or DEFAULT_MAX_CAPTURE
    running = min(context.concurrency, context.num_slots or context.concurrency)
    if running <= covered:
        return []
    size = -(-running // 16) * 16  # capture sizes above 256 go in steps of 16
    return [
        Candidate(
            candidate=f"graphs-{size}",
            title=f"Capture graphs for batches of up to {size}",
            lever=CudaGraphs.name,
            changes={"max-cudagraph-capture-size": size},
            predicted=_prediction(context, "graph_coverage"),
            reason=f"{running} requests run at once, graphs end at {covered}: larger batches run "
            "without",
            cause="graph_coverage" if context.cause("graph_coverage") else None,
            risk="medium",
            changes_answers=None,
            watch="memory for the graphs, start-up time",
            undo=f"max-cudagraph-capture-size {covered}",
        )
    ]


def _prediction(context: PlanContext, cause: str) -> Estimate:
    fraction = max(context.cause(cause), context.share("host") if cause == "eager_mode" else 0.0)
    if fraction <= 0:
        because = f"the diagnosis names no {cause}; launches are not visible in it"
        return unsupported(1.0, SILENT_VALUE, SILENT_HIGH, because)
    because = f"the diagnosis names {cause}"
    return amdahl(context, fraction, "anywhere", because, likely_part=LIKELY_PART)
