"""Schedules: same seed, same bytes; lanes and sessions; open-loop arrivals."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from teardown.errors import UsageError
from teardown.records import to_json
from teardown.settings import WorkloadSettings
from teardown.workload.prompts import read_prompts, reusable_ratio
from teardown.workload.schedule import build_schedule

SYSTEM = "You answer for a shop. " * 20


@pytest.fixture
def prompts_file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = []
    for session in range(6):
        messages = [{"role": "system", "content": SYSTEM}]
        for turn in range(2):
            messages = [*messages, {"role": "user", "content": f"question {session} {turn}?"}]
            lines.append({"messages": messages, "session": f"s{session}", "max_tokens": 8 + turn})
            messages = [*messages, {"role": "assistant", "content": "an answer"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def closed(**changes: object) -> WorkloadSettings:
    load = WorkloadSettings(name="chats", kind="closed", prompts="p", concurrency=3)
    return replace(load, **changes)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_bytes(prompts_file: Path) -> None:
    load = closed(kind="open", rate_per_s=2.0, seed=7)
    prompts = read_prompts(prompts_file)
    first, second = (to_json(build_schedule(load, prompts, prompts_file)) for _ in range(2))
    other = to_json(build_schedule(replace(load, seed=8), prompts, prompts_file))
    assert first == second != other


def test_turns_of_a_session_share_a_lane_and_keep_their_order(prompts_file: Path) -> None:
    schedule = build_schedule(closed(), read_prompts(prompts_file), prompts_file)
    lanes: dict[str, set[int]] = {}
    turns: dict[str, list[int]] = {}
    for request in schedule.requests:
        lanes.setdefault(request.session, set()).add(request.lane)
        turns.setdefault(request.session, []).append(request.turn)
    assert all(len(used) == 1 for used in lanes.values())
    assert all(order == sorted(order) for order in turns.values())
    assert {r.lane for r in schedule.requests} == {0, 1, 2}


def test_more_users_than_sessions_is_refused(prompts_file: Path) -> None:
    with pytest.raises(UsageError, match="6 sessions"):
        build_schedule(closed(concurrency=7), read_prompts(prompts_file), prompts_file)


def test_open_arrivals_have_the_asked_rate(prompts_file: Path) -> None:
    load = closed(kind="open", rate_per_s=5.0, requests=600)
    schedule = build_schedule(load, read_prompts(prompts_file), prompts_file)
    times = [r.intended_s or 0.0 for r in schedule.requests]
    assert times == sorted(times)
    assert 600 / times[-1] == pytest.approx(5.0, rel=0.15)


def test_constant_arrivals_are_evenly_spaced(prompts_file: Path) -> None:
    load = closed(kind="open", rate_per_s=4.0, requests=9, arrivals="constant")
    schedule = build_schedule(load, read_prompts(prompts_file), prompts_file)
    gaps = [b - a for a, b in pairwise([r.intended_s or 0.0 for r in schedule.requests])]
    assert gaps == pytest.approx([0.25] * 8)


def test_a_request_repeated_beyond_the_file_is_another_session(prompts_file: Path) -> None:
    schedule = build_schedule(closed(requests=24), read_prompts(prompts_file), prompts_file)
    assert len({r.request_id for r in schedule.requests}) == 24
    assert len({r.session for r in schedule.requests}) == 12


def test_a_shared_system_prompt_is_reusable_and_unrelated_prompts_are_not(
    prompts_file: Path, tmp_path: Path
) -> None:
    assert reusable_ratio(read_prompts(prompts_file)) > 0.8
    path = tmp_path / "other.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{i}" * 900}) + "\n" for i in range(5)))
    assert reusable_ratio(read_prompts(path)) < 0.1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "needs either"),
        ('{"messages": [], "session": "a"}', "at least one message"),
        ('{"prompt": "a", "messages": []}', "needs either"),
        ('{"prompt": "a", "max_token": 3}', "unknown key `max_token`"),
        ('{"prompt": "a", "max_tokens": 0}', "positive"),
        ('{"prompt": 3}', "must be a string"),
        ('{"messages": ["hello"]}', "role"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UsageError, match=says):
        read_prompts(path)
