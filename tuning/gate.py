"""The oracle at work: reference answers before the first change, a judgement of every stack."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from teardown.errors import EngineFailed
from teardown.measure import prompts_file
from teardown.records import OracleResult
from teardown.workload.prompts import Prompt, read_prompts
from tuning.oracle import Answer, Reference, ask_all, is_stored, judge, load, store
from tuning.oracle.twin import numerical_twin
from tuning.trial import Bench

# Characters per token of English text, to size the twin's context with room to spare.
CHARS_PER_TOKEN = 2.5


class Gate:
    """Holds the reference of one engagement; the tuner may ask it, never write it."""

    def __init__(self) -> None:
        self._reference: Reference | None = None
        self._prompts: list[Mapping[str, Any]] = []

    @property
    def sha256(self) -> str | None:
        """The hash of the reference answers; None before `prepare`."""
        return self._reference.sha256 if self._reference else None

    def prepare(self, bench: Bench) -> None:
        """Load the reference, or make it with the client's own options before any change."""
        path = prompts_file(bench.engagement, bench.load)
        picked = _spread(read_prompts(path), bench.settings.budgets.oracle_prompts)
        self._prompts = [p.body for p in picked]
        folder = bench.engagement.oracle_dir
        if is_stored(folder):
            self._reference = load(folder, self._prompts)
            return
        console, users = bench.console, bench.load.concurrency
        console.step(f"Oracle: reference answers to {len(picked)} of the client's prompts")
        bench.target.apply(bench.original)
        answers = self._ask(bench, concurrency=1)
        passes = {f"{users} at once": self._ask(bench, concurrency=users)}
        longest = max(len(p.text) for p in picked) / CHARS_PER_TOKEN
        tokens = bench.settings.budgets.oracle_tokens
        stack = bench.target.read_back()
        twin = numerical_twin(stack.engine, bench.original, round(longest) + tokens)
        if twin is not None:
            try:
                bench.target.apply(twin)
                passes["numerical twin"] = self._ask(bench, concurrency=users)
            except EngineFailed as error:
                console.say(f"no numerical twin ({error}); the bands are narrower for it")
        self._reference = store(folder, stack, self._prompts, tokens, answers, passes)
        noise = [n.shift for n in self._reference.record.noise if n.shift is not None]
        if noise:
            console.say(
                f"stored and hashed; against itself the reference's token log-probabilities move "
                f"by up to {max(noise):.3f}"
            )

    def check(self, bench: Bench, name: str) -> OracleResult:
        """Return the judgement of the stack that runs now, asked at the workload's concurrency."""
        if self._reference is None:
            raise RuntimeError("Gate.prepare comes before the first check")
        bench.console.progress(f"{name}: asking the oracle's {len(self._prompts)} prompts")
        answers = self._ask(bench, concurrency=bench.load.concurrency)
        return judge(self._reference, self._reference.record.noise, answers)

    def _ask(self, bench: Bench, *, concurrency: int) -> list[Answer]:
        key_env = bench.settings.target.api_key_env
        return ask_all(
            bench.target.url,
            bench.target.model,
            self._prompts,
            bench.settings.budgets.oracle_tokens,
            concurrency,
            api_key=os.environ.get(key_env) if key_env else None,
        )


def _spread(prompts: Sequence[Prompt], number: int) -> list[Prompt]:
    """Return up to `number` prompts, evenly over the file: early and late turns, all sessions."""
    if len(prompts) <= number:
        return list(prompts)
    step = len(prompts) / number
    return [prompts[int(i * step)] for i in range(number)]
