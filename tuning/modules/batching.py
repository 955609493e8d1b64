"""How many requests run at once."""

import math

from teardown.records import Candidate, Estimate, LeftAlone, Options
from tuning.context import SLOTS_OPTION, PlanContext
from tuning.prediction import amdahl, more_slots, unsupported

# Throughput of 8 slots over 1 on two CPU cores: 0.92, of 4 slots 0.83 (llama.cpp through
# xllamacpp 2026.10, measured 2026-11): without an accelerator a batch amortises little.
WORST_THROUGHPUT = 0.83
# A batch reads the weights once: on a GPU the throughput grows with the batch at best and with its
# root likely; on a CPU it stays likely and grows with the root at best.
LIKELY_EXPONENT_GPU = 0.5
# llama.cpp rounds the context up to a multiple of this (llama-context.cpp, 2026-10).
CTX_GRAIN = 256
# Capture sizes of vLLM's CUDA graphs go in steps of 8; other sizes run partly without graphs
# on versions before its fix (vllm#57355, merged 2026-09).
SEQS_GRAIN = 8


class Batching:
    """`parallel` with the cache that it shares (llama.cpp), `max-num-seqs` (vLLM)."""

    name = "batching"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return more slots where requests wait, fewer where none does."""
        if context.stack.engine == "llama.cpp":
            return [*self._slots(context), *_continuous(context)]
        if context.stack.engine == "vllm":
            return self._seqs(context)
        return []

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return slot limits that do not bind."""
        engine, users, slots = context.stack.engine, context.concurrency, context.num_slots
        if engine == "llama-cpp-python":
            because = "this server runs one model call at a time; another server is a migration"
            return [LeftAlone(setting="parallel", value="1", because=because)]
        if engine not in SLOTS_OPTION:
            return []
        found = []
        if slots is not None and slots > users:
            because = (
                f"{users} requests in flight never fill {slots} slots: unused, it costs no time"
            )
            found.append(_alone(SLOTS_OPTION[engine], slots, because))
        return found

    def _slots(self, context: PlanContext) -> list[Candidate]:
        present, users = context.num_slots or 1, context.concurrency
        tries = {users, math.ceil(users / 2)} if users > present else {math.ceil(present / 2)}
        return [_with_slots(context, n) for n in sorted(tries - {present}, reverse=True) if n > 0]

    def _seqs(self, context: PlanContext) -> list[Candidate]:
        present, users = context.num_slots, context.concurrency
        if present is None:
            return []
        fits = _round_up(users, SEQS_GRAIN)
        tries = [fits, 2 * fits] if users > present else []
        if not tries and present > fits:
            tries = [fits]
        found = [_with_seqs(context, n, present) for n in tries if n != present]
        if users > present and "max-num-seqs" in context.stack.options:
            found.append(_default_seqs(context, present))
        return found


def _with_slots(context: PlanContext, slots: int) -> Candidate:
    changes: Options = {"parallel": slots, "kv-unified": True}
    total = context.number("ctx-size")
    needed = _round_up(slots * context.max_context_tokens, CTX_GRAIN)
    per_slot_now = (total or 0) // (context.num_slots or 1)
    if total:
        keeps = total if needed <= total else needed
        changes["ctx-size"] = keeps
        room = f"the cache holds {keeps} tokens for all slots ({per_slot_now} for each before)"
    else:
        room = "ctx-size stays unset: the cache is the model's whole context, shared by the slots"
    present = context.num_slots or 1
    more = slots > present
    reason = (
        f"{context.concurrency} requests are in flight and {present} can run; {room}"
        if more
        else f"fewer requests in a step make each step shorter; {room}"
    )
    watch = "gaps between tokens: requests that used to wait now share the steps"
    return Candidate(
        candidate=f"slots-{slots}",
        title=f"Run {slots} requests at once instead of {present}",
        lever=Batching.name,
        # by what was asked: an explicit `parallel` turns off a kv-unified that was automatic
        changes={k: v for k, v in changes.items() if context.stack.options.get(k) != v},
        predicted=_slots_prediction(context, slots),
        reason=reason,
        cause="batch_cap" if more and context.cause("batch_cap") else None,
        risk="low" if more else "medium",
        changes_answers=None,
        watch=watch,
        undo=f"parallel {present}, and ctx-size and kv-unified as they were",
    )


def _slots_prediction(context: PlanContext, slots: int) -> Estimate:
    now = min(context.num_slots or 1, context.concurrency)
    ratio = min(slots, context.concurrency) / now
    if ratio <= 1:
        return more_slots(context, slots, (ratio**LIKELY_EXPONENT_GPU, 1.0, 1 / WORST_THROUGHPUT))
    on_gpu = context.gpu is not None or context.stack.engine == "vllm"
    root = ratio**LIKELY_EXPONENT_GPU
    likely, high = (root, ratio) if on_gpu else (1.0, root)
    return more_slots(context, slots, (WORST_THROUGHPUT, likely, high))


def _continuous(context: PlanContext) -> list[Candidate]:
    if context.is_on("cont-batching", True):
        return []
    predicted = amdahl(
        context, context.share("scheduling"), "before_first_token", "batch at a time"
    )
    return [
        Candidate(
            candidate="cont-batching-on",
            title="Let requests join a running batch",
            lever=Batching.name,
            changes={"cont-batching": True},
            predicted=predicted,
            reason="without it a request waits until the whole batch has ended",
            cause="head_of_line",
            risk="low",
            changes_answers=None,
            watch="gaps between tokens",
            undo="cont-batching false",
        )
    ]


def _with_seqs(context: PlanContext, seqs: int, present: int) -> Candidate:
    more = seqs > present
    reason = f"{context.concurrency} requests are in flight and {present} may run"
    return Candidate(
        candidate=f"seqs-{seqs}",
        title=f"Let {seqs} sequences run at once instead of {present}",
        lever=Batching.name,
        changes={"max-num-seqs": seqs},
        predicted=_slots_prediction(context, seqs)
        if more
        else unsupported(0.95, 1.0, 1.1, "fewer graph sizes and smaller buffers leave more cache"),
        reason=reason,
        cause="batch_cap" if more and context.cause("batch_cap") else None,
        risk="low",
        changes_answers=None,
        watch="preemptions and cache use: more sequences share one pool; time per token rises",
        undo=f"max-num-seqs {present}",
    )


def _default_seqs(context: PlanContext, present: int) -> Candidate:
    return Candidate(
        candidate="seqs-default",
        title="Take the limit on running sequences away",
        lever=Batching.name,
        changes={"max-num-seqs": None},
        predicted=_slots_prediction(context, context.concurrency),
        reason=f"vLLM's own limit is 256 or 1024 by GPU memory; the stack asks for {present}",
        cause="batch_cap" if context.cause("batch_cap") else None,
        risk="medium",
        changes_answers=None,
        watch="preemptions, start-up time and memory for the graphs of large batches",
        undo=f"max-num-seqs {present}",
    )


def _alone(setting: str, value: object, because: str) -> LeftAlone:
    return LeftAlone(setting=setting, value=str(value), because=because)


def _round_up(number: int, grain: int) -> int:
    return math.ceil(number / grain) * grain
