"""Every kind is computed before the run: same seed, same bytes, and the load that was asked."""

import json
import math
import random
import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teardown.errors import UsageError
from teardown.records import Schedule, from_document, to_document, to_json
from teardown.workload.arrivals import arrival_times, ramp_times
from teardown.workload.levels import level_named, levels_of
from teardown.workload.made import made_prompts
from teardown.workload.prompts import Prompt, read_prompts, reusable_ratio
from teardown.workload.schedule import BUILDERS, build_schedule
from teardown.workload.words import text_of
from teardown.workload_settings import (
    Lengths,
    ProbeSettings,
    SyntheticSettings,
    VoiceSettings,
    WorkloadSettings,
)

MADE = SyntheticSettings(
    prompt_tokens=Lengths(mean=60, cv=0.5),
    output_tokens=Lengths(mean=8, cv=1.0),
    shared_prefix_tokens=20,
    prefix_groups=2,
)
TALKS = replace(MADE, turns=3)
LOADS = [
    WorkloadSettings(name="closed", kind="closed", concurrency=3, requests=9, synthetic=MADE),
    WorkloadSettings(name="open", kind="open", rate_per_s=4, duration_s=3, synthetic=MADE),
    WorkloadSettings(
        name="bursts",
        kind="open",
        rate_per_s=4,
        requests=9,
        arrivals="gamma",
        burstiness=0.3,
        synthetic=MADE,
    ),
    WorkloadSettings(name="sweep", kind="sweep", rates_per_s=[1, 2.5], requests=6, synthetic=MADE),
    WorkloadSettings(name="users", kind="sweep", concurrencies=[1, 4], requests=8, synthetic=MADE),
    WorkloadSettings(
        name="ramp", kind="ramp", rate_per_s=1, rate_to_per_s=5, duration_s=4, synthetic=MADE
    ),
    WorkloadSettings(
        name="more", kind="ramp", concurrency_to=4, requests=16, duration_s=4, synthetic=MADE
    ),
    WorkloadSettings(
        name="capacity", kind="capacity", rate_per_s=2, requests=9, duration_s=1, synthetic=MADE
    ),
    WorkloadSettings(
        name="talks", kind="sessions", concurrency=2, requests=12, think_s=1, synthetic=TALKS
    ),
    WorkloadSettings(name="new", kind="sessions", rate_per_s=2, duration_s=3, synthetic=TALKS),
    WorkloadSettings(name="calls", kind="voice", concurrencies=[2, 5]),
    WorkloadSettings(name="probe", kind="probe", probe=ProbeSettings(batch=2, long_tokens=600)),
]


def level(load: WorkloadSettings) -> WorkloadSettings:
    """One run of `load`: its last level, or a level of the capacity search."""
    if load.kind == "capacity":
        found = level_named(load, f"{load.name}@3.5")
        assert found is not None
        return found
    return levels_of(load)[-1]


def prompts_of(folder: Path, load: WorkloadSettings) -> tuple[list[Prompt], Path]:
    path = folder / f"{load.name}.jsonl"
    path.write_text(made_prompts(load, folder) or "")
    return read_prompts(path), path


def schedule_of(folder: Path, load: WorkloadSettings) -> Schedule:
    prompts, path = prompts_of(folder, load)
    return build_schedule(load, prompts, path)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_the_same_seed_gives_the_same_bytes_of_every_kind(
    tmp_path_factory: pytest.TempPathFactory, load: WorkloadSettings, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    one = replace(level(load), seed=seed)
    first, second = (to_json(schedule_of(folder, one)) for _ in range(2))
    other = to_json(schedule_of(folder, replace(one, seed=seed + 1)))
    assert first == second != other


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_level_is_found_again_by_its_name_and_no_other_is(load: WorkloadSettings) -> None:
    one = level(load)
    assert level_named(load, one.name) == one
    assert level_named(load, f"{load.name}@nothing") is None


def test_every_kind_of_a_schedule_has_a_builder(tmp_path: Path) -> None:
    assert {schedule_of(tmp_path, level(load)).kind for load in LOADS} == set(BUILDERS) - {"trace"}


def test_a_workload_of_several_runs_is_not_sent_as_one(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a"}\n')
    with pytest.raises(UsageError, match="several runs"):
        build_schedule(LOADS[3], read_prompts(path), path)


def test_a_schedule_of_the_first_form_still_loads(tmp_path: Path) -> None:
    document = to_document(schedule_of(tmp_path, LOADS[1]))
    del document["speech"]
    old = from_document(Schedule, {**document, "schema": "teardown.schedule/1"})
    assert old.is_open
    assert old.speech is None


@given(rate=st.floats(0.1, 100), shape=st.sampled_from([0.25, 1.0, 4.0]))
@settings(max_examples=20, deadline=None)
def test_gamma_arrivals_have_the_asked_mean_and_burstiness(rate: float, shape: float) -> None:
    load = WorkloadSettings(
        name="g", kind="open", rate_per_s=rate, arrivals="gamma", burstiness=shape
    )
    gaps = [b - a for a, b in pairwise(arrival_times(load, rate, 6000))]
    mean = statistics.fmean(gaps)
    assert mean == pytest.approx(1 / rate, rel=0.12)
    assert statistics.pstdev(gaps) / mean == pytest.approx(1 / math.sqrt(shape), rel=0.12)


@given(a=st.floats(0, 40), b=st.floats(0.5, 40), over_s=st.floats(5, 40))
@settings(max_examples=40, deadline=None)
def test_a_constant_ramp_sends_what_the_integral_of_its_rate_says(
    a: float, b: float, over_s: float
) -> None:
    load = WorkloadSettings(name="r", kind="ramp", arrivals="constant")
    times = ramp_times(load, a, b, over_s)
    assert len(times) == math.ceil(over_s * (a + b) / 2)
    for number, at_s in enumerate(times):
        assert a * at_s + (b - a) * at_s**2 / (2 * over_s) == pytest.approx(number, abs=1e-3)


def test_added_users_begin_evenly_and_each_has_work(tmp_path: Path) -> None:
    load = next(load for load in LOADS if load.name == "more")
    schedule = schedule_of(tmp_path, load)
    firsts = {}
    for request in schedule.requests:
        firsts.setdefault(request.lane, request.intended_s)
    assert firsts == {0: None, 1: 1.0, 2: 2.0, 3: 3.0}
    assert not schedule.is_open
    assert schedule.concurrency == 4


def test_lengths_have_the_asked_mean_and_spread(tmp_path: Path) -> None:
    made = replace(MADE, prompt_tokens=Lengths(mean=400, cv=0.5), shared_prefix_tokens=0)
    load = replace(LOADS[0], synthetic=made, requests=2000)
    lengths = [
        len(p.body["messages"][-1]["content"].split()) for p in prompts_of(tmp_path, load)[0]
    ]
    assert statistics.fmean(lengths) == pytest.approx(400, rel=0.05)
    assert statistics.pstdev(lengths) / statistics.fmean(lengths) == pytest.approx(0.5, rel=0.1)


def test_requests_of_one_group_share_their_prefix_and_groups_do_not(tmp_path: Path) -> None:
    prompts, _ = prompts_of(tmp_path, LOADS[0])
    prefixes = [p.body["messages"][0]["content"] for p in prompts]
    assert len(set(prefixes)) == 2
    assert prefixes[0] == prefixes[2] != prefixes[1]
    assert all(len(prefix.split()) == 20 for prefix in prefixes)


@given(st.lists(st.text("ab", max_size=24), min_size=1, max_size=12))
def test_reuse_is_what_a_block_by_block_cache_would_serve(texts: list[str]) -> None:
    prompts = [
        Prompt(
            index=i,
            session="s",
            turn=0,
            max_tokens=None,
            at_s=None,
            body={},
            text=text,
            sha256="",
        )
        for i, text in enumerate(texts)
    ]
    seen: set[str] = set()
    reused = 0
    for number, text in enumerate(texts):
        blocks = [text[:end] for end in range(4, len(text) + 1, 4)]
        reused += 64 if number else 0
        reused += 4 * sum(all(b in seen for b in blocks[: i + 1]) for i in range(len(blocks)))
        seen |= set(blocks)
    total = sum(len(text) + 64 for text in texts)
    assert reusable_ratio(prompts) == pytest.approx(reused / total)


def test_first_turns_come_at_the_rate_and_later_ones_follow_their_answer(tmp_path: Path) -> None:
    load = next(load for load in LOADS if load.name == "new")
    schedule = schedule_of(tmp_path, load)
    assert len(schedule.requests) == 6 * 3
    for request in schedule.requests:
        assert (request.intended_s is None) == (request.turn > 0)
    assert schedule.is_live
    assert not schedule.is_open


def test_bare_text_cannot_be_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a", "session": "s"}\n')
    load = WorkloadSettings(name="s", kind="sessions", prompts=str(path))
    with pytest.raises(UsageError, match="needs `messages`"):
        build_schedule(load, read_prompts(path), path)


def test_a_call_is_what_the_method_says(tmp_path: Path) -> None:
    load = level(next(load for load in LOADS if load.kind == "voice"))
    prompts, path = prompts_of(tmp_path, load)
    schedule = build_schedule(load, prompts, path)
    begins = [r.intended_s for r in schedule.requests if r.turn == 0]
    assert begins == [0, 6, 12, 18, 24]  # 5 calls over 30 s
    assert len(schedule.requests) == 5 * 8
    assert {r.max_tokens for r in schedule.requests} == {64}
    words = [sum(len(m["content"].split()) for m in p.body["messages"]) for p in prompts]
    assert statistics.fmean(words) == pytest.approx(1980, abs=1)
    for request in schedule.requests:
        if request.turn:  # 20 words at 150 a minute, 0.8 s of endpointing, a pause of 0.5 to 1.5 s
            assert 8.8 + 0.5 <= request.think_s <= 8.8 + 1.5
    assert schedule.speech is not None
    assert schedule.speech.words_per_minute == 150


def test_a_transcript_longer_than_the_prompt_is_refused(tmp_path: Path) -> None:
    load = WorkloadSettings(name="v", kind="voice", voice=VoiceSettings(prompt_tokens=100))
    with pytest.raises(UsageError, match=r"voice\.prompt_tokens"):
        made_prompts(load, tmp_path)


def test_the_corners_of_a_probe_differ_in_batch_and_context_alone() -> None:
    load = next(load for load in LOADS if load.kind == "probe")
    corners = levels_of(load)
    assert [(c.concurrency, c.synthetic and c.synthetic.prompt_tokens) for c in corners] == [
        (1, 128),
        (1, 600),
        (2, 128),
        (2, 600),
    ]
    assert all(c.extra_body["ignore_eos"] for c in corners)
    assert len({c.name for c in corners}) == 4


MOONCAKE = [
    {"timestamp": 1000, "input_length": 1100, "output_length": 5, "hash_ids": [1, 2, 3]},
    {"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [1, 2]},
    {"timestamp": 2000, "input_length": 520, "output_length": 0, "hash_ids": [9, 2]},
]
TRACES = {
    "mooncake": "".join(json.dumps(row) + "\n" for row in MOONCAKE),
    "burstgpt": (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,1100,5,1105,Conversation log\n"
        "6,GPT-4,520,0,520,API log\n"
        "7,ChatGPT,600,7,607,Conversation log\n"
    ),
    "azure": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,1100,5\n"
        "2023-11-16 18:17:04.9799600,520,0\n"
        "2023-11-16 18:17:05.9799600,600,7\n"
    ),
    "lengths": "".join(
        json.dumps({"at_s": at_s, "prompt_tokens": n, "output_tokens": m}) + "\n"
        for at_s, n, m in [(1, 1100, 5), (2, 520, 0), (3, 600, 7)]
    ),
}


def trace_load(folder: Path, text: str, **more: Any) -> WorkloadSettings:
    (folder / "trace").write_text(text)
    return WorkloadSettings(name="t", kind="trace", trace="trace", **more)


@pytest.mark.parametrize("name", sorted(TRACES))
def test_a_trace_is_recognised_and_replayed_twice_as_fast(tmp_path: Path, name: str) -> None:
    load = trace_load(tmp_path, TRACES[name], speed=2.0)
    prompts, path = prompts_of(tmp_path, load)
    schedule = build_schedule(load, prompts, path)
    assert [r.intended_s for r in schedule.requests] == [0.0, 0.5, 1.0]
    assert [r.max_tokens for r in schedule.requests] == [5, 1, 7]
    lengths = [len(p.body["messages"][0]["content"].split()) for p in prompts]
    assert lengths == [1100, 520, 600]
    assert schedule.rate_per_s == pytest.approx(2.0)


def test_equal_blocks_of_a_trace_are_equal_text(tmp_path: Path) -> None:
    load = trace_load(tmp_path, TRACES["mooncake"])
    first, other, second = (
        p.body["messages"][0]["content"].split() for p in prompts_of(tmp_path, load)[0]
    )
    assert first[:600] == second[:600]  # blocks 1 and 2, the last one cut
    assert first[:512] != other[:512]
    assert first[512:520] == other[512:]  # block 2 again, after another block


def test_the_clients_own_times_are_replayed(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    lines = [{"prompt": f"{n}", "at_s": 10 + at_s} for n, at_s in enumerate([4.0, 0.0, 2.0])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    load = WorkloadSettings(name="t", kind="trace", prompts=str(path), duration_s=3)
    schedule = build_schedule(load, read_prompts(path), path)
    assert [(r.prompt, r.intended_s) for r in schedule.requests] == [(1, 0.0), (2, 2.0)]
    path.write_text('{"prompt": "a"}\n')
    with pytest.raises(UsageError, match="no `at_s`"):
        build_schedule(load, read_prompts(path), path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no known format"),
        ("a,b\n1,2\n", "no known format"),
        ('{"input_length": "x", "timestamp": 0}\n', "line 1: `input_length`"),
        ('{"at_s": -1, "prompt_tokens": 1, "output_tokens": 1}\n', "line 1: `at_s`"),
        ('{"at_s": 0, "prompt_tokens": 1.5, "output_tokens": 1}\n', "whole number"),
        ('{"at_s": 0, "prompt_tokens": 1, "output_tokens": 1, "hash_ids": 3}\n', "hash_ids"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", "line 2: TIMESTAMP"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests"),
        ('{"at_s": 0}\nnot json\n', "`prompt_tokens`"),
        ('{"at_s": 0, "prompt_tokens": 99999999, "output_tokens": 1}\n', "take fewer"),
    ],
)
def test_a_wrong_trace_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made_prompts(trace_load(tmp_path, text), tmp_path)


@given(st.text(max_size=300))
def test_no_text_of_a_trace_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    header = random.Random(text).choice(["", "TIMESTAMP,ContextTokens,GeneratedTokens\n", '{"a'])
    try:
        made_prompts(trace_load(folder, header + text), folder)
    except UsageError as error:
        assert "trace" in str(error)


def test_a_longer_text_begins_with_the_shorter_one() -> None:
    assert text_of("x", 50).startswith(text_of("x", 20) + " ")
    assert text_of("x", 20) != text_of("y", 20)
