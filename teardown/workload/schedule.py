"""Prompts and an arrival pattern into a Schedule, computed whole before the run."""

import hashlib
import random
from pathlib import Path

from teardown.engagement import sha256_file
from teardown.errors import UsageError
from teardown.records import Schedule, ScheduledRequest, to_json
from teardown.settings import WorkloadSettings
from teardown.workload.prompts import Prompt


def build_schedule(load: WorkloadSettings, prompts: list[Prompt], prompts_path: Path) -> Schedule:
    """Return the schedule of `load`; the same settings and prompts give the same bytes.

    Closed: sessions are dealt to `concurrency` lanes, each lane sends its requests in order.
    Open: requests get absolute times, constant or Poisson; session turns stay in order.
    UsageError when there are fewer sessions than users.
    """
    picked = _pick(load, prompts)
    if load.kind == "closed":
        requests = _closed(load, picked)
    else:
        requests = _open(load, picked)
    return Schedule(
        workload=load.name,
        kind=load.kind,
        seed=load.seed,
        concurrency=load.concurrency,
        rate_per_s=load.rate_per_s if load.kind == "open" else None,
        prompts_sha256=sha256_file(prompts_path),
        requests=requests,
    )


def schedule_sha256(schedule: Schedule) -> str:
    """Return the hash that names this schedule; the salt is no part of it."""
    return hashlib.sha256(to_json(schedule).encode()).hexdigest()


def _pick(load: WorkloadSettings, prompts: list[Prompt]) -> list[Prompt]:
    """Return the prompts to send: whole sessions in file order until the asked number is reached.

    A schedule longer than the file starts over; its cache effects are then those of a repeat.
    """
    wanted = load.requests
    if wanted is None and load.kind == "open" and load.duration_s is not None:
        wanted = max(1, round((load.rate_per_s or 0.0) * load.duration_s))
    if wanted is None:
        return prompts
    repeated = prompts * (wanted // len(prompts) + 1)
    return repeated[:wanted]


def _closed(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    lane_by_session: dict[tuple[int, str], int] = {}
    requests = []
    for number, (round_, prompt) in enumerate(_rounds(prompts)):
        key = (round_, prompt.session)
        if key not in lane_by_session:
            lane_by_session[key] = len(lane_by_session) % load.concurrency
        requests.append(
            _request(load, prompt, number, round_, lane=lane_by_session[key], intended_s=None)
        )
    if len(lane_by_session) < load.concurrency:
        raise UsageError(
            f"workload {load.name!r} asks for {load.concurrency} users, but its prompts hold "
            f"{len(lane_by_session)} sessions; a user needs a session of its own"
        )
    return requests


def _open(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    rate = load.rate_per_s or 0.0
    draw = random.Random(load.seed)
    at_s = 0.0
    requests = []
    for number, (round_, prompt) in enumerate(_rounds(prompts)):
        requests.append(
            _request(load, prompt, number, round_, lane=number, intended_s=round(at_s, 6))
        )
        at_s += draw.expovariate(rate) if load.arrivals == "poisson" else 1.0 / rate
    return requests


def _rounds(prompts: list[Prompt]) -> list[tuple[int, Prompt]]:
    """Return each prompt with how often its line came before, so that repeats are told apart."""
    times: dict[int, int] = {}
    rounds = []
    for prompt in prompts:
        rounds.append((times.get(prompt.index, 0), prompt))
        times[prompt.index] = times.get(prompt.index, 0) + 1
    return rounds


def _request(
    load: WorkloadSettings,
    prompt: Prompt,
    number: int,
    round_: int,
    *,
    lane: int,
    intended_s: float | None,
) -> ScheduledRequest:
    return ScheduledRequest(
        request_id=f"{load.name}-{number:05d}",
        prompt=prompt.index,
        prompt_sha256=prompt.sha256,
        session=prompt.session if round_ == 0 else f"{prompt.session}#{round_ + 1}",
        turn=prompt.turn,
        max_tokens=prompt.max_tokens or load.max_tokens,
        lane=lane,
        intended_s=intended_s,
        think_s=load.think_s if prompt.turn > 0 else 0.0,
    )
