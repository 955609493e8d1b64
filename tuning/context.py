"""What a lever may look at before it proposes a change: the run, its diagnosis, the stack."""

from dataclasses import dataclass

from teardown.records import Attribution, OptionValue, Run, Stack
from teardown.settings import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """One measured stack under one workload.

    concurrency: users of a closed loop, peak requests in flight of an open one.
    max_context_tokens: the largest prompt with its output. reusable_tokens_ratio: fraction of
    prompt tokens that an ideal prefix cache would serve; cached_tokens_ratio: the fraction that
    was served; None where it is not known. gpu: the accelerator's name, None for a host without.
    kv_bytes_per_token and kv_pool_tokens describe the model and the cache where they are known.
    """

    run: Run
    attribution: Attribution
    stack: Stack
    concurrency: int
    num_cpus: int
    prompt_tokens_p50: int
    prompt_tokens_p99: int
    output_tokens_p50: int
    output_tokens_max: int
    max_context_tokens: int
    reusable_tokens_ratio: float | None
    cached_tokens_ratio: float | None
    goal: Goal
    gpu: str | None = None
    kv_bytes_per_token: float | None = None
    kv_pool_tokens: int | None = None
    max_model_tokens: int | None = None

    def option(self, name: str) -> OptionValue:
        """Return what is in force: the engine's word, else what was asked, else None."""
        effective = self.stack.effective.get(name)
        return effective if effective is not None else self.stack.options.get(name)

    def number(self, name: str) -> int | None:
        """Return an option as a whole number; None where it is unset or no number."""
        value = self.option(name)
        if isinstance(value, bool) or value is None:
            return None
        try:
            return int(value)
        except ValueError:
            return None

    def is_on(self, name: str, default: bool) -> bool:
        """Return a switch, written as a boolean or as on/off, true/false, 1/0."""
        value = self.option(name)
        if value is None:
            return default
        if isinstance(value, str):
            return value.lower() not in ("off", "false", "0", "no", "none", "")
        return bool(value)

    def cause(self, name: str) -> float:
        """Return the fraction of experienced time that removing this cause saves at most."""
        return max(0.0, self.attribution.causes.get(name, 0.0))

    def share(self, time_class: str) -> float:
        """Return the fraction of experienced time of a time class."""
        return max(0.0, self.attribution.shares.get(time_class, 0.0))

    @property
    def missing_prefix_ratio(self) -> float | None:
        """The fraction of prompt tokens that a prefix cache would still save; None if unknown."""
        if self.reusable_tokens_ratio is None:
            return None
        return max(0.0, self.reusable_tokens_ratio - (self.cached_tokens_ratio or 0.0))

    @property
    def num_slots(self) -> int | None:
        """How many requests the engine runs at once; None where it does not say."""
        slots = self.number(SLOTS_OPTION.get(self.stack.engine, ""))
        return slots if slots is not None and slots > 0 else None  # -1: the engine decides


# The option that bounds how many requests run at once, by engine.
SLOTS_OPTION = {"llama.cpp": "parallel", "vllm": "max-num-seqs"}
