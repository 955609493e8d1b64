"""The attention kernel: fused (flash attention) or step by step."""

from teardown.records import Candidate, LeftAlone
from tuning.context import PlanContext
from tuning.prediction import unsupported

OFF = ("off", "false", "0", "disabled")


class Attention:
    """`flash-attn` of llama.cpp; vLLM chooses by itself."""

    name = "attention"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return the fused kernel where it was switched off."""
        if context.stack.engine != "llama.cpp" or not _is_off(context):
            return []
        because = "fused attention writes no score matrix; the gain grows with the context"
        return [
            Candidate(
                candidate="flash-attn-auto",
                title="Let the engine use fused attention",
                lever=Attention.name,
                changes={"flash-attn": "auto"},
                predicted=unsupported(0.9, 1.05, 1.3, because),
                reason="flash-attn is off; the engine's default is auto",
                cause="kernel_inefficient" if context.cause("kernel_inefficient") else None,
                risk="low",
                changes_answers=None,
                watch="time to first token of the longest prompts",
                undo="flash-attn off",
            )
        ]

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return the kernel choice where the engine makes it."""
        value = context.option("flash-attn")
        if context.stack.engine != "llama.cpp" or value is None or _is_off(context):
            return []
        because = "the fused kernel is in use, or the engine decides by hardware"
        return [LeftAlone(setting="flash-attn", value=str(value), because=because)]


def _is_off(context: PlanContext) -> bool:
    value = context.option("flash-attn")
    return value is not None and str(value).lower() in OFF
