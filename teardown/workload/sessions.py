"""Conversations: a turn follows the answer to the turn before it, and carries that answer.

The schedule fixes who begins when and how long each thinks; only the model's own words are not
known before. Sessions come at a rate, or `concurrency` users have one after the other.
"""

from teardown.errors import UsageError
from teardown.records import ScheduledRequest
from teardown.workload import closed
from teardown.workload.arrivals import arrival_times
from teardown.workload.item import pick, request, rounds
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings


def build(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    """Return the sessions: first turns with times where they come at a rate, later ones after."""
    check_messages(load, prompts)
    if load.rate_per_s is None:
        return closed.build(load, prompts)
    picked = pick(load, prompts)
    if load.requests is None and load.duration_s is not None:
        asked = max(1, round(load.rate_per_s * load.duration_s))
        picked = [p for session in sessions_of(prompts, asked) for p in session]
    lane_by_session: dict[tuple[int, str], int] = {}
    counted = rounds(picked)
    for round_, prompt in counted:
        lane_by_session.setdefault((round_, prompt.session), len(lane_by_session))
    times = arrival_times(load, load.rate_per_s, len(lane_by_session))
    requests = []
    begun: set[int] = set()
    for number, (round_, prompt) in enumerate(counted):
        lane = lane_by_session[(round_, prompt.session)]
        intended_s = None if lane in begun else times[lane]
        begun.add(lane)
        requests.append(request(load, prompt, number, round_, lane=lane, intended_s=intended_s))
    return requests


def sessions_of(prompts: list[Prompt], number: int) -> list[list[Prompt]]:
    """Return `number` sessions in file order, starting over where the file ends."""
    found: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        found.setdefault(prompt.session, []).append(prompt)
    whole = list(found.values())
    return (whole * (number // len(whole) + 1))[:number]


def check_messages(load: WorkloadSettings, prompts: list[Prompt]) -> None:
    """Raise UsageError where a prompt is bare text: an answer can only follow a message."""
    for prompt in prompts:
        if "messages" not in prompt.body:
            raise UsageError(
                f"workload {load.name!r} is of kind {load.kind} and needs `messages`; prompt "
                f"{prompt.index + 1} of its file is a `prompt`"
            )
