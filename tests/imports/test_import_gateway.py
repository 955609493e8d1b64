"""Gateway logs become a workload and a summary, without sending a request."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from teardown.errors import UsageError
from tests.imports.files import imported_log

HEADER = "ts,prompt,completion,user\n"
MAP = "ts=arrival,prompt=input_tokens,completion=output_tokens,user=session"


def csv_log(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "gateway.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def json_log(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    path = tmp_path / "gateway.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trace_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_csv_log_becomes_a_trace_in_the_order_of_arrival(tmp_path: Path) -> None:
    log = csv_log(
        tmp_path,
        "2026-01-01T00:00:02.5+00:00,150,15,ann",
        "2026-01-01T00:00:00Z,100,10,ann",
        "2026-01-01T01:00:01+01:00,200,20,bob",
    )
    found = imported_log(log, tmp_path / "shop", MAP)
    assert found.trace == tmp_path / "shop" / "workload" / "gateway.jsonl"
    assert trace_of(found.trace) == [
        {"at_s": 0.0, "prompt_tokens": 100, "output_tokens": 10, "session": "s1"},
        {"at_s": 1.0, "prompt_tokens": 200, "output_tokens": 20, "session": "s2"},
        {"at_s": 2.5, "prompt_tokens": 150, "output_tokens": 15, "session": "s1"},
    ]
    assert found.traffic.rate_per_s == pytest.approx(2 / 2.5)
    assert found.traffic.num_sessions == 2
    assert found.traffic.turns is not None and found.traffic.turns.mean == 1.5


def test_either_order_of_a_pair_and_the_usual_names_are_understood(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "0,100,10,ann", "1,100,10,ann")
    other = "arrival=ts,input_tokens=prompt,completion=output_tokens"
    found = imported_log(log, tmp_path / "a", other)
    assert found.traffic.columns["arrival"] == "ts" and found.traffic.num_requests == 2
    usual = json_log(
        tmp_path,
        [{"timestamp": i, "usage": {"prompt_tokens": 5, "completion_tokens": 1}} for i in (0, 1)],
    )
    mapping = "usage.prompt_tokens=input_tokens,usage.completion_tokens=output_tokens"
    assert imported_log(usual, tmp_path / "b", mapping).traffic.num_requests == 2


@pytest.mark.parametrize(
    ("field", "scale"), [("arrival", 1), ("arrival_ms", 1e3), ("arrival_us", 1e6)]
)
def test_arrivals_have_the_unit_that_their_field_names(
    tmp_path: Path, field: str, scale: float
) -> None:
    log = csv_log(tmp_path, *(f"{(1.7e9 + i) * scale:.0f},10,1,a" for i in range(3)))
    mapping = f"ts={field},prompt=input_tokens"
    assert imported_log(log, tmp_path / "shop", mapping).traffic.duration_s == pytest.approx(2)


def test_milliseconds_under_the_name_of_seconds_are_refused(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "1700000000000,10,1,a")
    with pytest.raises(UsageError, match=r"line 2: .*arrival_ms"):
        imported_log(log, tmp_path / "shop", MAP)


def test_bursts_are_told_from_a_steady_stream(tmp_path: Path) -> None:
    draw = random.Random(1)
    shapes = {}
    for shape in (0.25, 1.0, 4.0):
        at_s, lines = 0.0, []
        for _ in range(4000):
            at_s += draw.gammavariate(shape, 1 / shape)
            lines.append(f"{at_s},10,1,a")
        traffic = imported_log(csv_log(tmp_path, *lines), tmp_path / str(shape), MAP).traffic
        assert traffic.rate_per_s == pytest.approx(1.0, rel=0.1)
        shapes[shape] = traffic.burstiness
    assert shapes == {shape: pytest.approx(shape, rel=0.2) for shape in shapes}


def test_hashes_give_the_prefix_that_a_cache_could_serve(tmp_path: Path) -> None:
    rows = [
        {"ts": 0, "input_tokens": 1300, "output_tokens": 5, "hash_ids": ["a", "b", "c"]},
        {"ts": 1, "input_tokens": 1300, "output_tokens": 5, "hash_ids": ["a", "b", "d"]},
        {"ts": 2, "input_tokens": 1300, "output_tokens": 5, "hash_ids": ["x", "b", "d"]},
    ]
    found = imported_log(json_log(tmp_path, rows), tmp_path / "shop")
    # 1,300 tokens in 3 blocks: 512 is the one size that fits; only the second row shares a prefix
    assert found.traffic.reachable_prefix_ratio == pytest.approx(2 * 512 / 3900)
    lines = trace_of(found.trace)
    assert [line["hash_ids"] for line in lines] == [[0, 1, 2], [0, 1, 3], [4, 1, 3]]
    assert {line["block_tokens"] for line in lines} == {512}


def test_texts_give_the_prefix_too_and_are_not_kept(tmp_path: Path) -> None:
    shared = "You are a secret agent. " * 20
    rows = [
        {"ts": i, "input_tokens": 130, "output_tokens": 5, "body": f"{shared}question {i} " * 1}
        for i in range(20)
    ]
    mapping = "body=text"
    found = imported_log(json_log(tmp_path, rows), tmp_path / "shop", mapping)
    assert found.traffic.reachable_prefix_ratio == pytest.approx(0.85, abs=0.1)
    for path in (tmp_path / "shop").rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes()


def test_what_the_cache_did_serve_is_read_where_the_log_says_it(tmp_path: Path) -> None:
    rows = [{"ts": i, "input_tokens": 100, "cached_tokens": 25 * i} for i in range(3)]
    traffic = imported_log(json_log(tmp_path, rows), tmp_path / "shop").traffic
    assert traffic.served_prefix_ratio == pytest.approx(75 / 300)
    assert any("output lengths" in s for s in traffic.cannot_recover)


def test_requests_without_a_length_are_arrivals_alone(tmp_path: Path) -> None:
    log = csv_log(tmp_path, "0,100,10,a", "1,,,a", "2,100,,a")
    found = imported_log(log, tmp_path / "shop", MAP)
    assert (found.traffic.num_arrivals, found.traffic.num_requests) == (3, 2)
    assert [line["output_tokens"] for line in trace_of(found.trace)] == [10, 1]
    assert len(found.traffic.cannot_recover) == 3


def test_percentiles_of_few_requests_are_withheld(tmp_path: Path) -> None:
    log = csv_log(tmp_path, *(f"{i},{100 + i},10,a" for i in range(20)))
    lengths = imported_log(log, tmp_path / "shop", MAP).traffic.prompt_tokens
    assert lengths.p50 is not None and lengths.p95 is None


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ("tss=arrival", "no column 'tss'; did you mean 'ts'"),
        ("ts=arival", "did you mean 'arrival'"),
        ("ts", "not COLUMN=FIELD"),
        ("ts=arrival,completion=output_tokens", "no column for input_tokens"),
        ("ts=arrival,prompt=arrival", "names arrival twice"),
    ],
)
def test_a_wrong_map_is_told_what_would_be_right(tmp_path: Path, mapping: str, says: str) -> None:
    log = csv_log(tmp_path, "0,100,10,a")
    with pytest.raises(UsageError, match=says):
        imported_log(log, tmp_path / "shop", mapping)
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("yesterday,100,10,a", "line 2: `ts` is 'yesterday'"),
        ("0,many,10,a", "line 2: `prompt` is 'many'"),
        ("0,-5,10,a", "line 2: `prompt` is '-5'"),
        ("0,1.5,10,a", "line 2: `prompt` is '1.5'"),
        ("nan,5,10,a", "line 2: `ts` is 'nan'"),
        ("0,5,10,a,b", "line 2: more cells"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        imported_log(csv_log(tmp_path, line), tmp_path / "shop", MAP)
