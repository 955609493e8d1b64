"""How many tokens one step may take: longer ones finish prompts sooner and hold up decodes."""

import math

from teardown.records import Candidate, LeftAlone, Options
from tuning.context import PlanContext
from tuning.prediction import amdahl, unsupported

# llama.cpp's own defaults (tools/server/README.md, 2026-10); also the sizes to try.
BATCH_DEFAULT, UBATCH_DEFAULT = 2048, 512
# vLLM: 2048 on small GPUs, 8192 from 70 GiB (arg_utils.py, 0.33).
TOKEN_BUDGETS = (2048, 8192, 16384)
# A host that computes 64 tokens a step does prefill at most this much slower than at 512
# (matrix products of 64 rows fill a CPU's vector units already, a GPU's do not).
SMALL_UBATCH_GAIN = 1.3


class StepSize:
    """`ubatch-size` of llama.cpp, the token budget of vLLM."""

    name = "step_size"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return the engine's own step where a smaller one was set, else its neighbours."""
        if context.stack.engine == "llama.cpp":
            return _ubatch(context)
        return _token_budget(context) if context.stack.engine == "vllm" else []

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return step limits that do not bind."""
        found = []
        budget = context.number("max-num-batched-tokens")
        if budget is not None and not context.cause("token_budget"):
            because = (
                f"a step holds {budget} tokens, the p99 prompt has {context.prompt_tokens_p99}; "
                "the diagnosis names no token budget"
            )
            found.append(_alone("max-num-batched-tokens", budget, because))
        batch = context.number("batch-size")
        if context.stack.engine == "llama.cpp" and (batch or BATCH_DEFAULT) >= BATCH_DEFAULT:
            because = "only ubatch-size decides what one step computes; this is its upper bound"
            found.append(_alone("batch-size", batch or BATCH_DEFAULT, because))
        return found


def _ubatch(context: PlanContext) -> list[Candidate]:
    present = context.number("ubatch-size") or UBATCH_DEFAULT
    batch = context.number("batch-size") or BATCH_DEFAULT
    if present < UBATCH_DEFAULT:
        tries = [UBATCH_DEFAULT]
    else:
        tries = [present // 2] + ([present * 2] if context.prompt_tokens_p99 > present else [])
    return [_with_ubatch(context, size, present, batch) for size in tries]


def _with_ubatch(context: PlanContext, size: int, present: int, batch: int) -> Candidate:
    changes: Options = {"ubatch-size": size}
    if batch < size:
        changes["batch-size"] = BATCH_DEFAULT
    longer = size > present
    if present < UBATCH_DEFAULT:
        fraction = context.share("prefill") * (1 - 1 / SMALL_UBATCH_GAIN)
        steps = math.ceil(context.prompt_tokens_p50 / present)
        predicted = amdahl(
            context,
            fraction,
            "before_first_token",
            f"the median prompt takes {steps} steps of {present} tokens",
            worst=0.9,
        )
        reason = f"a step of {size} tokens reads the weights once where {present} reads it often"
    else:
        predicted = unsupported(0.9, 1.0, 1.1, "a neighbouring step size; the trial decides")
        reason = "a neighbouring size: " + (
            "fewer steps per prompt" if longer else "shorter steps between the tokens of others"
        )
    return Candidate(
        candidate=f"ubatch-{size}",
        title=f"Compute {size} prompt tokens a step instead of {present}",
        lever=StepSize.name,
        changes=changes,
        predicted=predicted,
        reason=reason,
        cause="prefill_compute" if longer and context.cause("prefill_compute") else None,
        risk="low",
        changes_answers=None,
        watch="the largest gap between tokens: a longer prompt step holds up every decode",
        undo=f"ubatch-size {present}, batch-size {batch}",
    )


def _token_budget(context: PlanContext) -> list[Candidate]:
    present = context.number("max-num-batched-tokens")
    larger = [b for b in TOKEN_BUDGETS if b > (present or TOKEN_BUDGETS[1])][:1]
    smaller = [b for b in TOKEN_BUDGETS if b < (present or TOKEN_BUDGETS[1])][-1:]
    found = []
    for budget in larger + smaller:
        grows = budget in larger
        cause = "token_budget" if grows else "prefill_interference"
        fraction = context.cause(cause)
        phase = "before_first_token" if grows else "after_first_token"
        predicted = (
            amdahl(context, fraction, "anywhere", f"the diagnosis names {cause}", worst=0.9)
            if fraction
            else unsupported(0.9, 1.0, 1.1, f"the diagnosis names no {cause}")
        )
        found.append(
            Candidate(
                candidate=f"token-budget-{budget}",
                title=f"Let a step take {budget} tokens",
                lever=StepSize.name,
                changes={"max-num-batched-tokens": budget},
                predicted=predicted,
                reason="a larger step finishes prompts in fewer steps"
                if grows
                else "a smaller step holds up running decodes for a shorter time",
                cause=cause if fraction else None,
                risk="low" if fraction else "medium",
                changes_answers=None,
                watch=f"time {phase.replace('_', ' ')} gains, the other side pays",
                undo=f"max-num-batched-tokens {present if present else 'unset'}",
            )
        )
    return found


def _alone(setting: str, value: int, because: str) -> LeftAlone:
    return LeftAlone(setting=setting, value=str(value), because=because)
