"""Prompts are picked, repeats are told apart, and each becomes one request of a schedule."""

from teardown.records import ScheduledRequest
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings


def pick(load: WorkloadSettings, prompts: list[Prompt]) -> list[Prompt]:
    """Return the prompts to send: in file order until the asked number is reached.

    A schedule longer than the file starts over; its cache effects are then those of a repeat.
    """
    wanted = load.requests
    if wanted is None and load.kind == "open" and load.duration_s is not None:
        wanted = max(1, round((load.rate_per_s or 0.0) * load.duration_s))
    return prompts if wanted is None else repeated(prompts, wanted)


def repeated(prompts: list[Prompt], number: int) -> list[Prompt]:
    """Return `number` prompts, starting over where the file ends."""
    return (prompts * (number // len(prompts) + 1))[:number]


def rounds(prompts: list[Prompt]) -> list[tuple[int, Prompt]]:
    """Return each prompt with how often its line came before, so that repeats are told apart."""
    times: dict[int, int] = {}
    counted = []
    for prompt in prompts:
        counted.append((times.get(prompt.index, 0), prompt))
        times[prompt.index] = times.get(prompt.index, 0) + 1
    return counted


def request(
    load: WorkloadSettings,
    prompt: Prompt,
    number: int,
    round_: int,
    *,
    lane: int,
    intended_s: float | None,
    think_s: float | None = None,
) -> ScheduledRequest:
    """Return one request; the `round_`-th repeat of a session is a session of its own."""
    if think_s is None:
        think_s = load.think_s if prompt.turn > 0 else 0.0
    return ScheduledRequest(
        request_id=f"{load.name}-{number:05d}",
        prompt=prompt.index,
        prompt_sha256=prompt.sha256,
        session=prompt.session if round_ == 0 else f"{prompt.session}#{round_ + 1}",
        turn=prompt.turn,
        max_tokens=prompt.max_tokens or load.max_tokens,
        lane=lane,
        intended_s=intended_s,
        think_s=think_s,
    )
