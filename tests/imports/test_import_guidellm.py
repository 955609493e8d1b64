"""Reports of GuideLLM 0.8, written by the tool itself against the scripted engine."""

import gzip
import json
from pathlib import Path

import pytest

from teardown.errors import UsageError
from teardown.imports import guidellm
from teardown.imports.entry import Asked, import_path
from tests.imports.files import FIXTURES, imported_run

CONCURRENT = FIXTURES / "guidellm-concurrent.json.gz"
POISSON = FIXTURES / "guidellm-poisson.json.gz"


def test_times_are_recomputed_from_its_stamps(tmp_path: Path) -> None:
    (found,) = guidellm.read(CONCURRENT)
    good = [r for r in found.requests if r.status == "ok"]
    assert len(good) == 16
    for request in good:  # the script: first token at 60 ms, seven more 15 ms apart
        assert request.ttft_s == pytest.approx(0.060, abs=0.010)
        assert request.tpot_s == pytest.approx(0.015, abs=0.002)
        assert request.e2e_s == pytest.approx(0.165, abs=0.010)
        assert (request.prompt_tokens, request.cached_tokens, request.output_tokens) == (12, 4, 8)


def test_its_tpot_holds_the_first_token_and_ours_does_not(tmp_path: Path) -> None:
    one = imported_run(CONCURRENT, tmp_path)
    stated = {s.name: s for s in one.origin.stated}["mean time_per_output_token_ms"]
    assert stated.value > 20 and stated.ours == pytest.approx(15.0, abs=1.0)
    latency = {s.name: s for s in one.origin.stated}["mean time_to_first_token_ms"]
    assert latency.ours == pytest.approx(latency.value, rel=0.01)


def test_its_even_timeline_is_not_taken_for_chunks(tmp_path: Path) -> None:
    one = imported_run(CONCURRENT, tmp_path)
    (found,) = guidellm.read(CONCURRENT)
    assert all(r.chunk_s == [] and r.max_gap_s is None for r in found.requests)
    assert any("evenly spaced" in s for s in one.origin.cannot_recover)


def test_what_was_in_flight_when_it_stopped_has_not_failed(tmp_path: Path) -> None:
    run = imported_run(CONCURRENT, tmp_path).run
    assert run.summary is not None
    assert run.summary.num_by_status == {"aborted": 3, "ok": 16}
    (check,) = [c for c in run.validity.checks if c.code == "errors"]
    assert (check.value, check.level) == (0.0, "ok")
    assert "3 more were in flight" in check.text


def test_refusals_are_failures(tmp_path: Path) -> None:
    run = imported_run(POISSON, tmp_path).run
    (check,) = [c for c in run.validity.checks if c.code == "errors"]
    assert (check.value, check.level) == (pytest.approx(5 / 40), "invalid")


def test_timed_arrivals_have_their_intended_times(tmp_path: Path) -> None:
    (found,) = guidellm.read(POISSON)
    waits = [r.client_wait_s for r in found.requests]
    assert all(w is not None and 0 <= w < 0.1 for w in waits)
    (found,) = guidellm.read(CONCURRENT)
    assert all(r.intended_s is None for r in found.requests)


def test_the_prompts_themselves_explain_what_the_cache_served(tmp_path: Path) -> None:
    run = imported_run(CONCURRENT, tmp_path).run
    (check,) = [c for c in run.validity.checks if c.code == "warm_cache"]
    assert check.value == 0.0
    assert "explain up to" in check.text


def test_no_text_of_prompt_or_answer_is_kept(tmp_path: Path) -> None:
    imported_run(CONCURRENT, tmp_path / "shop")
    for path in (tmp_path / "shop").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"question" not in data and b"please answer" not in data, path


def test_another_report_schema_is_refused(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(CONCURRENT.read_bytes()))
    document["metadata"]["version"] = 3
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match="report schema 3"):
        import_path(path, tmp_path / "shop", Asked())


def test_a_last_token_before_the_first_is_named(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(CONCURRENT.read_bytes()))
    row = document["benchmarks"][0]["requests"]["successful"][2]
    row["info"]["timings"]["last_token_iteration"] = row["info"]["timings"]["request_start"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"successful\[2\]\.info\.timings\.last_token_iteration"):
        guidellm.read(path)
