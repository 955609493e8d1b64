"""Workloads of every kind from engagement.yaml to records, against scripted servers."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from teardown.records import Capacity, Schedule, read
from teardown.steps import measure_step, requests_of
from teardown.verbs import measure
from tests.fakes.engine import FakeEngine
from tests.fakes.folders import servers, write_folder

MADE = {"prompt_tokens": 40, "output_tokens": 2}
# 100 words a second: a reply of two words plays for 20 ms, an utterance of 4 takes 40 ms
VOICE = {
    "turns": 8,
    "prompt_tokens": 200,
    "reply_tokens": 2,
    "caller_words": 4,
    "words_per_minute": 6000,
    "endpointing_s": 0.05,
    "ramp_s": 0.1,
}


def test_two_servers_sustain_two_calls_and_not_sixteen(tmp_path: Path) -> None:
    """Two places of 0.1 s: two calls never wait, TTFO is 0.05 s.

    Sixteen are answered at 20 a second, so a turn takes 16/20 s = 0.8 s in sum; the caller's own
    part is 0.06 + 0.05 + at most 0.15 s, which leaves more than 0.5 s of waiting.
    """
    with FakeEngine(servers(2, 0.1, ["one", " two"])) as fake:
        load = {"kind": "voice", "concurrencies": [2, 16], "think_s": 0.1, "voice": VOICE}
        promises = {"ttfo_s": {"p95": 0.2}, "attainment": 0.75}
        engagement = write_folder(tmp_path, fake, load, promises=promises)
        runs = measure_step(tmp_path, {})
        last = max(fake.bodies, key=lambda body: len(body["messages"]))
    [result] = read(Capacity, engagement.capacity_path).results
    assert (result.low, result.high, result.unit) == (2, 16, "calls")
    assert [level.outcome for level in result.levels] == ["kept", "missed"]
    two, sixteen = result.levels
    assert two.ttfo_s is not None
    assert two.ttfo_s.p50 is not None
    assert two.ttfo_s.p50.value == pytest.approx(0.05, abs=0.02)
    assert two.silence_s is not None
    assert two.silence_s.p50 is not None
    # endpointing, TTFO, and the second word 50 ms after the first, which plays for 7.5 ms
    assert two.silence_s.p50.value == pytest.approx(0.05 + 0.05 + 0.0425, abs=0.02)
    assert sixteen.ttfo_s is not None
    assert sixteen.ttfo_s.p50 is not None
    assert sixteen.ttfo_s.p50.value > 0.4
    answers = [m["content"] for m in last["messages"] if m["role"] == "assistant"]
    assert answers == ["one two"] * 7
    assert len({run.salt for run in runs}) == 2


@pytest.mark.parametrize(
    ("load", "num_runs"),
    [
        ({"kind": "sweep", "rates_per_s": [20, 40], "requests": 12, "synthetic": MADE}, 2),
        ({"kind": "ramp", "concurrency_to": 3, "requests": 9, "duration_s": 0.5}, 1),
        (
            {"kind": "sessions", "rate_per_s": 20, "requests": 6, "synthetic": MADE | {"turns": 3}},
            1,
        ),
        ({"kind": "probe", "probe": {"batch": 2, "long_tokens": 600, "output_tokens": 2}}, 4),
        ({"kind": "trace", "trace": "trace.jsonl", "speed": 10}, 1),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_every_level_is_a_run_with_its_own_record(
    tmp_path: Path, load: dict[str, Any], num_runs: int
) -> None:
    rows = [{"at_s": n, "prompt_tokens": 40, "output_tokens": 2} for n in range(6)]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if load["kind"] == "ramp":
        load = load | {"synthetic": MADE}
    with FakeEngine(servers(8, 0.02, ["one", " two"])) as fake:
        engagement = write_folder(tmp_path, fake, load)
        runs = measure_step(tmp_path, {})
    assert len(runs) == num_runs
    for run in runs:
        assert (engagement.run_dir(run.run) / "run.json").exists()
        schedule = read(Schedule, engagement.schedule_path(run.workload))
        rows = requests_of(tmp_path, run.run)
        assert {row["status"] for row in rows} == {"ok"}
        assert len(rows) == len(schedule.requests)


def test_one_level_can_be_named_and_a_capacity_is_in_the_document(tmp_path: Path) -> None:
    with FakeEngine(servers(8, 0.02, ["one", " two"])) as fake:
        load = {"kind": "voice", "concurrency": 2, "think_s": 0.05, "voice": VOICE}
        promises = {"ttfo_s": {"p95": 0.2}, "attainment": 0.75}
        write_folder(tmp_path, fake, load, promises=promises)
        found = CliRunner().invoke(measure, [str(tmp_path), "--json"])
    document = json.loads(found.stdout)
    assert document["capacity"][0]["low"] == 2
    assert document["capacity"][0]["high"] is None
    assert "not tried" in document["capacity"][0]["reason"]
