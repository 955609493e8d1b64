"""Prompt tokens that are computed again although an earlier request computed them."""

from teardown.records import Candidate, Estimate, LeftAlone, Options
from tuning.context import PlanContext
from tuning.prediction import less_prefill, unsupported

# Below this a cache saves less of the prompts than the kit can measure (A/A floor of a few %).
WORTH_REUSING_RATIO = 0.05
# A cache finds most of what an ideal one would: eviction, block edges and first turns cost some.
LIKELY_PART = 0.8
# llama.cpp keeps prompts of ended requests in host RAM up to this by default (`--cache-ram`,
# MiB, 2026-10); it counts per process, so the plan asks for no more than a part of it.
CACHE_RAM_DEFAULT_MIB = 8192
CACHE_RAM_MIB = 1024
BYTES_PER_MIB = 1024 * 1024
# Prompts of this many users are kept, and one more for each of them, before old ones go.
PROMPTS_KEPT_PER_USER = 2
# The cache's own share where nothing is known of the workload's reuse.
UNKNOWN_REUSE = 0.3


class PrefixCache:
    """`cache-prompt` and `cache-ram` of llama.cpp; `enable-prefix-caching` of vLLM."""

    name = "prefix_cache"

    def candidates(self, context: PlanContext) -> list[Candidate]:
        """Return the cache switched on, or given room, where prompts repeat."""
        if context.stack.engine == "llama.cpp":
            if not context.is_on("cache-prompt", True):
                return [_on(context, _llama_changes(context), "prompt-cache-on", "cache-prompt")]
            return _ram(context)
        if context.stack.engine == "vllm" and not context.is_on("enable-prefix-caching", True):
            name = "enable-prefix-caching"
            changes: Options = {name: True}
            if context.option("no-enable-prefix-caching"):
                changes = {"no-enable-prefix-caching": None, name: True}
            return [_on(context, changes, "prefix-cache-on", name)]
        return []

    def left_alone(self, context: PlanContext) -> list[LeftAlone]:
        """Return the cache where it is on already, or where prompts share nothing."""
        option = {"llama.cpp": "cache-prompt", "vllm": "enable-prefix-caching"}.get(
            context.stack.engine
        )
        if option is None:
            return []
        on, missing = context.is_on(option, True), context.missing_prefix_ratio
        if on and missing is not None and missing < WORTH_REUSING_RATIO:
            because = (
                f"it serves {context.cached_tokens_ratio or 0:.0%} of the prompt tokens of "
                f"{context.reusable_tokens_ratio or 0:.0%} that could be reused"
            )
            return [LeftAlone(setting=option, value="true", because=because)]
        ram = context.number("cache-ram")
        if (
            context.stack.engine == "llama.cpp"
            and on
            and ram is not None
            and not _wants_ram(context)
        ):
            because = "the slots keep what is reused; more host memory would hold nothing useful"
            return [LeftAlone(setting="cache-ram", value=f"{ram} MiB", because=because)]
        return []


def _on(context: PlanContext, changes: Options, candidate: str, option: str) -> Candidate:
    missing = context.missing_prefix_ratio
    supported = context.cause("prefix_cache_miss") > 0
    return Candidate(
        candidate=candidate,
        title="Keep the cache of prompts that begin alike",
        lever=PrefixCache.name,
        changes=changes,
        predicted=_prediction(context),
        reason=f"{missing:.0%} of the prompt tokens were computed before and are computed again"
        if missing is not None
        else "how much the prompts have in common is not known; the trial shows it",
        cause="prefix_cache_miss" if supported else None,
        risk="low",
        changes_answers=None,
        watch="cached tokens over prompt tokens; memory for kept prompts",
        undo=f"{option} off",
    )


def _prediction(context: PlanContext) -> Estimate:
    missing = context.missing_prefix_ratio
    if missing is None:
        found = less_prefill(context, UNKNOWN_REUSE, LIKELY_PART)
        because = f"the reuse is not known, {UNKNOWN_REUSE:.0%} is assumed ({found.method})"
        return unsupported(1.0, found.value, found.high or found.value, because)
    if missing < WORTH_REUSING_RATIO:
        return unsupported(1.0, 1.0, 1.05, f"only {missing:.0%} of prompt tokens could be reused")
    return less_prefill(context, missing, LIKELY_PART)


def _llama_changes(context: PlanContext) -> Options:
    changes: Options = {"cache-prompt": True}
    if context.number("cache-ram") == 0:
        changes["cache-ram"] = _room_mib(context)
    return changes


def _wants_ram(context: PlanContext) -> bool:
    """Return whether prompts are lost between the slots: more users than slots, reuse missing."""
    missing = context.missing_prefix_ratio
    slots = context.num_slots or 1
    return missing is not None and missing >= WORTH_REUSING_RATIO and context.concurrency > slots


def _ram(context: PlanContext) -> list[Candidate]:
    present = context.number("cache-ram")
    room = _room_mib(context)
    if not _wants_ram(context) or (CACHE_RAM_DEFAULT_MIB if present is None else present) >= room:
        return []
    missing = context.missing_prefix_ratio or 0.0
    return [
        Candidate(
            candidate=f"cache-ram-{room}",
            title=f"Keep up to {room} MiB of finished prompts in host memory",
            lever=PrefixCache.name,
            changes={"cache-ram": room},
            predicted=less_prefill(context, missing, LIKELY_PART / 2),
            reason=f"{context.concurrency} users take turns on {context.num_slots or 1} slots, "
            f"and {missing:.0%} of the prompt tokens are computed again",
            cause="prefix_cache_miss" if context.cause("prefix_cache_miss") else None,
            risk="low",
            changes_answers=None,
            watch="resident memory of the server: the limit is checked after a prompt is stored",
            undo=f"cache-ram {present}",
        )
    ]


def _room_mib(context: PlanContext) -> int:
    """Return host memory for the prompts that are worth keeping, in MiB."""
    if context.kv_bytes_per_token is None:
        return CACHE_RAM_MIB
    tokens = PROMPTS_KEPT_PER_USER * context.concurrency * context.max_context_tokens
    needed = int(tokens * context.kv_bytes_per_token / BYTES_PER_MIB) + 1
    return min(max(needed, 64), CACHE_RAM_DEFAULT_MIB)
