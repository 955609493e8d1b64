"""A trace is replayed: every request at its recorded time, `speed` times as fast."""

from teardown.errors import UsageError
from teardown.records import ScheduledRequest
from teardown.workload.item import request
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings


def build(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    """Return the prompts at their `at_s`, counted from the first and divided by `speed`.

    UsageError names a prompt without a time.
    """
    timed = []
    for prompt in prompts:
        if prompt.at_s is None:
            raise UsageError(
                f"workload {load.name!r} is a trace, but prompt {prompt.index + 1} of its file has "
                "no `at_s`"
            )
        timed.append((prompt.at_s, prompt.index, prompt))
    timed.sort(key=lambda entry: entry[:2])
    start_s = timed[0][0]
    taken = [
        (at_s - start_s, prompt)
        for at_s, _, prompt in timed[: load.requests]
        if load.duration_s is None or at_s - start_s < load.duration_s
    ]
    return [
        request(load, prompt, number, 0, lane=number, intended_s=round(at_s / load.speed, 6))
        for number, (at_s, prompt) in enumerate(taken)
    ]
