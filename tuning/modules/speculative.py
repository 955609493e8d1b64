"""Guess several tokens, check them in one step: pays where steps are long and batches small."""

from teardown.records import Candidate, LeftAlone, Options
from tuning.context import PlanContext
from tuning.prediction import amdahl, unsupported

# Verification rides on weight reads only while the batch is small; above this it costs compute.
MAX_CONCURRENCY = 4
# Decode must be most of the time before a guess can pay.
MIN_DECODE_SHARE = 0.5
# Text that copies from its prompt accepts about half the guesses, other text next to none
# (vllm#37150: 1.2 %; prompt-lookup papers: 1.3 to 2.4 times on summaries).
BEST_SAVING = 0.4
WORST = 0.7
VLLM_NGRAM = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'
CHANGES: dict[str, Options] = {
    "vllm": {"speculative-config": VLLM_NGRAM},
    "llama.cpp": {"spec-type": "ngram-simple"},
}


class Speculative:
    """Guesses from the request's own text (n-grams); a draft model is another stack."""

    name = "speculative"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return n-gram speculation on, or running speculation off where it loses."""
        changes = CHANGES.get(context.stack.engine)
        if changes is None:
            return []
        option = next(iter(changes))
        present = context.option(option)
        if present not in (None, "none"):
            return [_off(context, option)] if context.cause("speculation_loss") else []
        if context.concurrency > MAX_CONCURRENCY or context.share("decode") < MIN_DECODE_SHARE:
            return []
        fraction = context.share("decode") * BEST_SAVING
        because = "guesses accepted without a step of their own, where answers repeat the prompt"
        return [
            Candidate(
                candidate="ngram-speculation",
                title="Guess tokens from the request's own text",
                lever=Speculative.name,
                changes=dict(changes),
                predicted=amdahl(
                    context,
                    fraction,
                    "after_first_token",
                    because,
                    worst=WORST,
                    likely_part=0.2,
                ),
                reason=f"decode is {context.share('decode'):.0%} of the time at "
                f"{context.concurrency} requests in flight",
                cause="weights_bandwidth" if context.cause("weights_bandwidth") else None,
                risk="medium",
                changes_answers=None,
                watch="the ratio of accepted guesses over time; it falls as contexts grow",
                undo=f"{option} unset",
            )
        ]

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return speculation where the batch is too large for it."""
        if context.stack.engine not in CHANGES or self.candidates(context):
            return []
        because = (
            f"{context.concurrency} requests in flight and {context.share('decode'):.0%} of the "
            f"time in decode: guesses pay below {MAX_CONCURRENCY} and above {MIN_DECODE_SHARE:.0%}"
        )
        value = context.option(next(iter(CHANGES[context.stack.engine])))
        return [LeftAlone(setting="speculation", value=str(value or "off"), because=because)]


def _off(context: PlanContext, option: str) -> Candidate:
    fraction = context.cause("speculation_loss")
    predicted = (
        amdahl(context, fraction, "after_first_token", "guesses cost more than they save")
        if fraction
        else unsupported(0.9, 1.0, 1.1, "the diagnosis is silent")
    )
    return Candidate(
        candidate="speculation-off",
        title="Stop guessing tokens",
        lever=Speculative.name,
        changes={option: None},
        predicted=predicted,
        reason="drafting and checking take longer than the accepted tokens save",
        cause="speculation_loss",
        risk="low",
        changes_answers=None,
        watch="time per token on prompts that repeat themselves",
        undo=f"{option} as before",
    )
