"""Threads against cores, and the work beside the model: tokenizer and API server."""

from teardown.records import Candidate, Estimate, LeftAlone
from tuning.context import PlanContext
from tuning.prediction import amdahl, unsupported

THREADS_OPTION = {"llama.cpp": "threads", "llama-cpp-python": "n_threads"}
# ggml's threads spin at a barrier after every operation, so one without a core holds up all: two
# threads on two cores beside other work decoded 40 times slower than one thread (seen 2026-11).
SPARE_CORES = 1
# What giving each thread a core brings at best in the middling case; the case above is the far end.
OVERSUBSCRIBED_GAIN = 2.0
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
        """Return the thread count where it fits the cores."""
        option = THREADS_OPTION.get(context.stack.engine)
        threads = context.number(option) if option else None
        if option is None or threads is None or threads < 1 or _threads(context, option):
            return []
        free = max(context.num_cpus - threads, 0)
        because = (
            f"{threads} of {context.num_cpus} cores compute; {free} free for HTTP, sampling and "
            "the load"
        )
        return [LeftAlone(setting=option, value=str(threads), because=because)]


def _threads(context: PlanContext, option: str) -> list[Candidate]:
    present = context.number(option)
    fits = max(context.num_cpus - SPARE_CORES, 1)
    if present is None or present < 1:
        return [_with_threads(context, option, fits, None)] if _is_starved(context) else []
    return [_with_threads(context, option, fits, present)] if present != fits else []


def _is_starved(context: PlanContext) -> bool:
    return context.cause("cpu_starvation") > 0


def _with_threads(
    context: PlanContext, option: str, threads: int, present: int | None
) -> Candidate:
    return Candidate(
        candidate=f"threads-{threads}",
        title=f"Compute with {threads} threads on {context.num_cpus} cores",
        lever=Host.name,
        changes={option: threads},
        predicted=_prediction(context, threads, present),
        reason=f"{present or 'an unknown number of'} threads compute on {context.num_cpus} cores; "
        f"{SPARE_CORES} is left for HTTP, sampling and the load",
        cause="cpu_starvation" if _is_starved(context) else None,
        risk="low",
        changes_answers=None,
        watch="processor use of the engine and time per token",
        undo=f"{option} {present}" if present else f"{option} unset",
    )


def _prediction(context: PlanContext, threads: int, present: int | None) -> Estimate:
    fraction = context.cause("cpu_starvation")
    if fraction:
        return amdahl(context, fraction, "anywhere", "threads wait for cores", worst=0.9)
    if context.gpu is not None:
        return unsupported(0.95, 1.0, 1.1, "the accelerator computes, not these threads")
    if present is None:
        return unsupported(0.9, 1.0, 1.1, "the engine's own thread count is not known")
    if present > context.num_cpus:
        because = f"{present} threads take turns on {context.num_cpus} cores and spin meanwhile"
        return unsupported(1.0, OVERSUBSCRIBED_GAIN**0.5, OVERSUBSCRIBED_GAIN, because)
    if present < threads:
        ideal = threads / present
        because = f"physics: at most {threads}/{present} of the arithmetic; memory may limit first"
        return unsupported(0.9, ideal**0.5, ideal, because)
    because = "every core computes: one thread that must wait for a core holds up all of them"
    return unsupported(threads / present, 1.0, OVERSUBSCRIBED_GAIN, because)


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
