"""How long a context the cache is laid out for."""

import math

from teardown.records import Candidate, LeftAlone
from tuning.context import PlanContext
from tuning.prediction import amdahl, unsupported

CONTEXT_OPTION = {"llama.cpp": "ctx-size", "vllm": "max-model-len", "llama-cpp-python": "n_ctx"}
# llama.cpp rounds the context up to a multiple of this (llama-context.cpp, 2026-10).
CTX_GRAIN = 256
# A context this many times what requests need is worth a word.
OVERSIZED = 2.0
# Room above the largest request seen, before a context counts as too small.
ROOM = 1.0


class ContextSize:
    """`ctx-size` of llama.cpp, `max-model-len` of vLLM, `n_ctx` of llama-cpp-python."""

    name = "context_size"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return a larger context where requests do not fit; a smaller one where memory binds."""
        option = CONTEXT_OPTION.get(context.stack.engine)
        present = context.number(option) if option else None
        if option is None or not present:
            return []
        needed = _needed(context)
        if present < needed * ROOM:
            return [_enlarge(context, option, present, needed)]
        if context.cause("kv_capacity") and context.stack.engine == "vllm":
            return []  # the pool takes what is left over, whatever the longest context
        if context.cause("kv_capacity") and present > OVERSIZED * needed:
            return [_shrink(context, option, present, needed)]
        return []

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return a context larger than the requests need: it costs memory, not time."""
        option = CONTEXT_OPTION.get(context.stack.engine)
        present = context.number(option) if option else None
        if option is None or not present or self.candidates(context):
            return []
        needed = _needed(context)
        held = ""
        if context.kv_bytes_per_token is not None and present > needed:
            idle_mib = (present - needed) * context.kv_bytes_per_token / 2**20
            held = f" ({idle_mib:.0f} MiB)"
        if present > OVERSIZED * needed:
            because = (
                f"the requests need {needed} of {present} tokens; unused context costs memory"
                f"{held}, not time"
            )
        else:
            because = f"the requests need {needed} of {present} tokens: it fits"
        return [LeftAlone(setting=option, value=str(present), because=because)]


def _needed(context: PlanContext) -> int:
    """Return the tokens the option must hold: all slots together, in llama.cpp."""
    slots = (context.num_slots or 1) if context.stack.engine == "llama.cpp" else 1
    return math.ceil(slots * context.max_context_tokens / CTX_GRAIN) * CTX_GRAIN


def _enlarge(context: PlanContext, option: str, present: int, needed: int) -> Candidate:
    because = "requests that do not fit are refused or cut, not slow"
    return Candidate(
        candidate=f"context-{needed}",
        title=f"Lay the cache out for {needed} tokens",
        lever=ContextSize.name,
        changes={option: needed},
        predicted=unsupported(0.9, 1.0, 1.2, because),
        reason=f"the largest requests need {needed} tokens and {option} is {present}",
        cause="kv_capacity" if context.cause("kv_capacity") else None,
        risk="low",
        changes_answers="answers that were cut come whole",
        watch="memory",
        undo=f"{option} {present}",
    )


def _shrink(context: PlanContext, option: str, present: int, needed: int) -> Candidate:
    size = math.ceil(OVERSIZED * needed / CTX_GRAIN) * CTX_GRAIN
    fraction = context.cause("kv_capacity")
    return Candidate(
        candidate=f"context-{size}",
        title=f"Lay the cache out for {size} tokens instead of {present}",
        lever=ContextSize.name,
        changes={option: size},
        predicted=amdahl(
            context, fraction, "before_first_token", "memory for the cache binds", likely_part=0.2
        ),
        reason=f"the diagnosis names kv_capacity, and the requests need {needed} tokens",
        cause="kv_capacity",
        risk="medium",
        changes_answers=None,
        watch="requests longer than any that was measured",
        undo=f"{option} {present}",
    )
