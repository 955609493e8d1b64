"""Threads against cores, and the work beside the model: tokenizer and API server."""

from teardown.records import Candidate, Estimate, LeftAlone
from tuning.context import PlanContext
from tuning.prediction import amdahl, unsupported

THREADS_OPTION = {"llama.cpp": "threads", "llama-cpp-python": "n_threads"}
# Threads beyond the cores spin against each other (ggml busy-waits between operations).
OVERSUBSCRIBED_GAIN = 2.0
# A core left for HTTP and sampling costs a step at most its part, and may end stalls.
SPARE_CORE_HIGH = 1.1
FRONTEND_CAUSES = ("frontend", "tokenizer")
API_SERVERS = 2


class Host:
    """`threads` of llama.cpp, `api-server-count` of vLLM."""

    name = "host"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return a thread count that fits the cores, or more front ends where they limit."""
        option = THREADS_OPTION.get(context.stack.engine)
        if option is not None:
            return _threads(context, option)
        return _api_servers(context) if context.stack.engine == "vllm" else []

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return the thread count where it equals the cores."""
        option = THREADS_OPTION.get(context.stack.engine)
        threads = context.number(option) if option else None
        if option is None or threads is None or threads != context.num_cpus:
            return []
        because = f"{threads} threads on {context.num_cpus} cores: one for each"
        return [LeftAlone(setting=option, value=str(threads), because=because)]


def _threads(context: PlanContext, option: str) -> list[Candidate]:
    present, cores = context.number(option), context.num_cpus
    known = present is not None and present > 0
    if known and present == cores:
        tries = [cores - 1] if cores > 2 else []
    else:
        tries = [cores] if known or context.cause("cpu_starvation") else []
    return [_with_threads(context, option, n, present if known else None) for n in tries]


def _with_threads(
    context: PlanContext, option: str, threads: int, present: int | None
) -> Candidate:
    return Candidate(
        candidate=f"threads-{threads}",
        title=f"Compute with {threads} threads on {context.num_cpus} cores",
        lever=Host.name,
        changes={option: threads},
        predicted=_prediction(context, threads, present),
        reason=f"{present or 'an unknown number of'} threads share {context.num_cpus} cores",
        cause="cpu_starvation" if context.cause("cpu_starvation") else None,
        risk="low",
        changes_answers=None,
        watch="processor use of the engine and time per token",
        undo=f"{option} {present}" if present else f"{option} unset",
    )


def _prediction(context: PlanContext, threads: int, present: int | None) -> Estimate:
    fraction = context.cause("cpu_starvation")
    if fraction:
        return amdahl(context, fraction, "anywhere", "threads wait for cores", worst=0.9)
    if present is None:
        return unsupported(0.9, 1.0, 1.1, "the engine's own thread count is not known")
    if present > context.num_cpus:
        because = f"{present} threads take turns on {context.num_cpus} cores"
        return unsupported(1.0, min(present / threads, OVERSUBSCRIBED_GAIN) ** 0.5, 2.0, because)
    if present < threads:
        if context.gpu is not None:
            return unsupported(0.95, 1.0, 1.1, "the accelerator computes, not these threads")
        ideal = threads / present
        because = f"physics: at most {threads}/{present} of the arithmetic; memory may limit first"
        return unsupported(0.9, ideal**0.5, ideal, because)
    low = threads / present
    return unsupported(low, 1.0, SPARE_CORE_HIGH, "a core for the server beside the arithmetic")


def _api_servers(context: PlanContext) -> list[Candidate]:
    fraction = max(context.cause(name) for name in FRONTEND_CAUSES)
    if fraction <= 0 or (context.number("api-server-count") or 1) >= API_SERVERS:
        return []
    cause = max(FRONTEND_CAUSES, key=context.cause)
    return [
        Candidate(
            candidate=f"api-servers-{API_SERVERS}",
            title=f"Run {API_SERVERS} API server processes",
            lever=Host.name,
            changes={"api-server-count": API_SERVERS},
            predicted=amdahl(context, fraction / 2, "anywhere", f"the diagnosis names {cause}"),
            reason="one Python process parses, tokenizes and streams for every request",
            cause=cause,
            risk="medium",
            changes_answers=None,
            watch="metrics are kept per process: the page needs multiprocess mode",
            undo="api-server-count unset",
        )
    ]
