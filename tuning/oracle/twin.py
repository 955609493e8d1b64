"""A numerical twin: the same weights and number types, the arithmetic in another order.

An engine with one slot repeats itself bit for bit, so asking it again shows no noise at all. Its
twin batches and splits prompts differently; what moves between the two is rounding, not quality.
"""

from teardown.records import Options

# Sizes that no lever proposes, so that the twin is not the stack on trial.
TWIN_SLOTS = 3
TWIN_STEP_TOKENS = 192
# Every slot of the twin needs room for a prompt and its answer; llama.cpp rounds up to this.
CONTEXT_ROUNDING = 256


def numerical_twin(engine: str, options: Options, context_tokens: int) -> Options | None:
    """Return the twin's options; None where concurrency alone reorders the arithmetic (vLLM).

    context_tokens: the largest prompt with its answer.
    """
    if engine != "llama.cpp":
        return None
    per_slot = -(-max(context_tokens, 1) // CONTEXT_ROUNDING) * CONTEXT_ROUNDING
    present = options.get("ctx-size")
    asked = present if isinstance(present, int) else 0
    return {
        **options,
        "parallel": TWIN_SLOTS,
        "kv-unified": True,
        "ctx-size": max(asked, TWIN_SLOTS * per_slot),
        "batch-size": TWIN_STEP_TOKENS,
        "ubatch-size": TWIN_STEP_TOKENS,
    }
