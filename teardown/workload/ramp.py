"""A load that rises or falls evenly within one run: of a rate, or of the number of users."""

from teardown.errors import UsageError
from teardown.records import ScheduledRequest
from teardown.workload.arrivals import ramp_times
from teardown.workload.closed import check_sessions
from teardown.workload.item import pick, repeated, request, rounds
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings


def build(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    """Return the ramp: open with `rate_to_per_s`, closed with `concurrency_to`."""
    if load.rate_to_per_s is not None:
        return _of_rate(load, prompts, load.rate_to_per_s)
    return _of_users(load, prompts, load.concurrency_to or load.concurrency)


def num_arrivals(load: WorkloadSettings) -> int:
    """Return how many requests a ramp of the rate sends."""
    return len(_times(load, load.rate_to_per_s or 0.0))


def _times(load: WorkloadSettings, to_per_s: float) -> list[float]:
    return ramp_times(load, load.rate_per_s or 0.0, to_per_s, load.duration_s or 0.0)


def _of_rate(
    load: WorkloadSettings, prompts: list[Prompt], to_per_s: float
) -> list[ScheduledRequest]:
    times = _times(load, to_per_s)
    if not times:
        raise UsageError(f"workload {load.name!r}: its ramp is too short for a single request")
    picked = rounds(repeated(prompts, len(times)))
    return [
        request(load, prompt, number, round_, lane=number, intended_s=at_s)
        for number, ((round_, prompt), at_s) in enumerate(zip(picked, times, strict=True))
    ]


def _of_users(load: WorkloadSettings, prompts: list[Prompt], users: int) -> list[ScheduledRequest]:
    """Let user j of the ones that are added begin at T (j + 1)/(added + 1).

    Each next session goes to the user that has the fewest for the time it has left until T.
    """
    over_s, added = load.duration_s or 0.0, users - load.concurrency
    begins = [
        round(max(lane - load.concurrency + 1, 0) * over_s / (added + 1), 6)
        for lane in range(users)
    ]
    held = [0] * users
    lane_by_session: dict[tuple[int, str], int] = {}
    requests = []
    for number, (round_, prompt) in enumerate(rounds(pick(load, prompts))):
        key = (round_, prompt.session)
        intended_s = None
        if key not in lane_by_session:
            lane = min(range(users), key=lambda j: ((held[j] + 1) / (over_s - begins[j]), j))
            lane_by_session[key] = lane
            intended_s = begins[lane] if held[lane] == 0 and begins[lane] > 0 else None
            held[lane] += 1
        lane = lane_by_session[key]
        requests.append(request(load, prompt, number, round_, lane=lane, intended_s=intended_s))
    check_sessions(load, users if all(held) else sum(map(bool, held)), users)
    return requests
