"""An open loop at a steady rate: requests come whether the ones before are answered or not."""

from teardown.records import ScheduledRequest
from teardown.workload.arrivals import arrival_times
from teardown.workload.item import pick, request, rounds
from teardown.workload.prompts import Prompt
from teardown.workload_settings import WorkloadSettings


def build(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    """Give every request a time of its own; turns of a session stay in order."""
    picked = pick(load, prompts)
    times = arrival_times(load, load.rate_per_s or 0.0, len(picked))
    return [
        request(load, prompt, number, round_, lane=number, intended_s=at_s)
        for number, ((round_, prompt), at_s) in enumerate(zip(rounds(picked), times, strict=True))
    ]
