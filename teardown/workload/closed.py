"""A closed loop: each user asks again when it has been answered."""

from teardown.errors import UsageError
from teardown.records import ScheduledRequest
from teardown.workload.item import pick, request, rounds
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings


def build(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    """Deal sessions to `concurrency` lanes in turn; UsageError when a lane would be empty."""
    lane_by_session: dict[tuple[int, str], int] = {}
    requests = []
    for number, (round_, prompt) in enumerate(rounds(pick(load, prompts))):
        key = (round_, prompt.session)
        if key not in lane_by_session:
            lane_by_session[key] = len(lane_by_session) % load.concurrency
        requests.append(
            request(load, prompt, number, round_, lane=lane_by_session[key], intended_s=None)
        )
    check_sessions(load, len(lane_by_session), load.concurrency)
    return requests


def check_sessions(load: WorkloadSettings, num_sessions: int, users: int) -> None:
    """Raise UsageError where there are fewer sessions than users."""
    if num_sessions < users:
        raise UsageError(
            f"workload {load.name!r} asks for {users} users, but its prompts hold "
            f"{num_sessions} sessions; a user needs a session of its own"
        )
