"""Exports of AIPerf 0.13, written by the tool itself against the scripted engine."""

import json
import shutil
from pathlib import Path

import pytest

from teardown.errors import UsageError
from teardown.imports import aiperf
from tests.imports.files import FIXTURES, imported_run

EXPORT = FIXTURES / "aiperf"


def test_every_chunk_and_count_is_recovered() -> None:
    (found,) = aiperf.read(EXPORT)
    assert (found.tool_version, found.load.concurrency, found.load.is_open) == ("0.13.0", 3, False)
    assert len(found.requests) == 14
    for request in found.requests:  # the script: first token at 60 ms, seven more 15 ms apart
        assert len(request.chunk_s) == 8
        assert request.ttft_s == pytest.approx(0.060, abs=0.010)
        assert request.tpot_s == pytest.approx(0.015, abs=0.002)
        assert (request.prompt_tokens, request.cached_tokens, request.output_tokens) == (12, 4, 8)
        assert request.output_tokens_source == "usage"


def test_connecting_is_taken_out_of_the_time_to_first_token() -> None:
    (found,) = aiperf.read(EXPORT)
    lines = (EXPORT / aiperf.LINES).read_text().splitlines()
    by_id = {row["metadata"]["x_request_id"]: row for row in map(json.loads, lines)}
    connected = [r for r in found.requests if r.connect_s is not None]
    assert connected and len(connected) < len(found.requests)
    for request in connected:
        metrics = by_id[request.request_id]["metrics"]
        theirs = metrics["time_to_first_token"]["value"] / 1e3
        assert request.connect_s and request.ttft_s == pytest.approx(theirs - request.connect_s)
        assert request.max_gap_s == pytest.approx(
            max(metrics["inter_chunk_latency"]["value"]) / 1e3
        )


def test_lines_alone_are_read_without_the_asked_load(tmp_path: Path) -> None:
    one = imported_run(FIXTURES / "aiperf-refused.jsonl", tmp_path)
    assert any("not beside the lines" in s for s in one.origin.cannot_recover)
    (found,) = aiperf.read(FIXTURES / "aiperf-refused.jsonl")
    refused = [r for r in found.requests if r.status == "refused"]
    assert [r.http_status for r in refused] == [503, 503]
    assert (found.load.concurrency, found.load.is_asked) == (3, False)  # seen in flight
    (check,) = [c for c in one.run.validity.checks if c.code == "schedule_not_kept"]
    assert check.value is None


def test_the_summary_alone_is_stated_numbers(tmp_path: Path) -> None:
    path = tmp_path / aiperf.SUMMARY
    shutil.copy(EXPORT / aiperf.SUMMARY, path)
    one = imported_run(path, tmp_path / "shop")
    assert one.origin.numbers == "stated"
    assert any(s.name == "avg time_to_first_token" for s in one.origin.stated)


def test_intended_times_are_lost_where_a_rate_was_asked(tmp_path: Path) -> None:
    shutil.copytree(EXPORT, tmp_path / "export")
    summary = tmp_path / "export" / aiperf.SUMMARY
    document = json.loads(summary.read_text())
    document["input_config"]["phases"] = [{"kind": "profiling", "type": "poisson", "rate": 16.0}]
    summary.write_text(json.dumps(document))
    one = imported_run(tmp_path / "export", tmp_path / "shop")
    assert aiperf.NO_INTENDED in one.origin.cannot_recover
    (check,) = [c for c in one.run.validity.checks if c.code == "schedule_not_kept"]
    assert check.value is None and "16 asked" in check.text


def test_the_warm_up_is_left_out(tmp_path: Path) -> None:
    lines = [json.loads(x) for x in (EXPORT / aiperf.LINES).read_text().splitlines()]
    lines[0]["metadata"]["benchmark_phase"] = "warmup"
    path = tmp_path / "profile.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (found,) = aiperf.read(path)
    assert len(found.requests) == 13
    assert found.notes == ["1 requests of the warm-up are left out"]


def test_a_unit_that_is_no_time_is_named(tmp_path: Path) -> None:
    lines = [json.loads(x) for x in (EXPORT / aiperf.LINES).read_text().splitlines()]
    lines[3]["metrics"]["time_to_first_token"]["unit"] = "furlong"
    path = tmp_path / "profile.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(
        UsageError, match=r"line 4: metrics\.time_to_first_token\.unit is 'furlong'"
    ):
        aiperf.read(path)
