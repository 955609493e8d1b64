"""Results of `vllm bench serve`, with and without the lists of requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from teardown.comparison import compare_runs
from teardown.diagnosis import diagnose_run
from teardown.engagement import Engagement
from teardown.errors import RunInvalid, UsageError
from teardown.imports import vllm_bench
from teardown.records import Request
from tests.imports.files import FIXTURES, imported_run, imported_runs

CHAT = json.loads((FIXTURES / "vllm-chat.json").read_text())


def written(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(CHAT | changes))
    return path


def requests_of(tmp_path: Path, **changes: Any) -> list[Request]:
    (found,) = vllm_bench.read(written(tmp_path, **changes))
    return found.requests


def test_the_role_chunk_of_a_chat_is_no_first_token(tmp_path: Path) -> None:
    first = requests_of(tmp_path)[0]
    assert first.ttft_s == pytest.approx(0.100)
    assert first.tpot_s == pytest.approx(0.020)
    assert first.e2e_s == pytest.approx(0.160)
    assert first.max_gap_s == pytest.approx(0.020)
    assert first.chunk_s == pytest.approx([0.10, 0.12, 0.14, 0.16])


def test_a_text_completion_has_no_role_chunk(tmp_path: Path) -> None:
    first = requests_of(tmp_path, backend="openai")[0]
    assert first.ttft_s == pytest.approx(0.010)


def test_several_tokens_a_chunk_leave_the_pace_unknown(tmp_path: Path) -> None:
    first = requests_of(tmp_path, output_lens=[16, 16, 16, 0, 16, 16])[0]
    assert first.tpot_s is None and first.first_chunk_tokens is None
    assert "how many tokens" in first.reasons["tpot_s"]
    assert first.ttft_s == pytest.approx(0.010)


def test_an_answer_in_one_chunk_has_no_time_to_first_token(tmp_path: Path) -> None:
    first = requests_of(tmp_path, itls=[[]] * 6)[0]
    assert first.ttft_s is None
    assert first.e2e_s == pytest.approx(0.010)
    assert "one piece" in first.reasons["ttft_s"]


def test_failures_have_their_class_and_no_numbers(tmp_path: Path) -> None:
    errors = ["", "Too Many Requests", "Traceback\n  x\nTimeoutError", "", "", "Bad Gateway"]
    found = requests_of(tmp_path, errors=errors)
    assert [r.status for r in found] == ["ok", "refused", "timeout", "error", "ok", "error"]
    assert found[2].error == "TimeoutError"
    assert found[1].e2e_s is None and found[1].output_tokens is None


def test_the_wait_for_the_cap_is_counted_where_the_file_keeps_it(tmp_path: Path) -> None:
    found = requests_of(tmp_path, max_concurrency=1, queue_times=[0, 0.5, 0, 0, 0, 0.25])
    assert found[1].client_wait_s == pytest.approx(0.5)
    assert found[1].e2e_from_intended_s == pytest.approx(0.66)


def test_a_hidden_wait_for_the_cap_is_listed_as_lost(tmp_path: Path) -> None:
    (found,) = vllm_bench.read(written(tmp_path, max_concurrency=1))
    assert vllm_bench.HIDDEN_WAIT in found.lost
    (found,) = vllm_bench.read(written(tmp_path))
    assert vllm_bench.HIDDEN_WAIT not in found.lost


def test_a_rate_that_was_not_reached_is_judged(tmp_path: Path) -> None:
    fine = imported_run(written(tmp_path), tmp_path / "a").run
    slow = imported_run(written(tmp_path, request_rate=8.0), tmp_path / "b").run
    levels = [
        {c.code: c.level for c in run.validity.checks}["schedule_not_kept"] for run in (fine, slow)
    ]
    assert levels == ["ok", "invalid"]


def test_aggregates_alone_are_kept_as_stated_and_never_diagnosed(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    one = imported_run(FIXTURES / "vllm-aggregates.json", folder)
    assert one.origin.numbers == "stated"
    assert {s.name: s.value for s in one.origin.stated}["mean_ttft_ms"] == 10.0
    assert one.run.summary is None and one.run.validity.verdict == "invalid"
    engagement = Engagement(folder)
    with pytest.raises(RunInvalid, match="holds no single request"):
        diagnose_run(engagement, engagement.settings(), one.run)


def test_requests_without_send_times_are_kept_and_not_judged(tmp_path: Path) -> None:
    one = imported_run(written(tmp_path, start_times=None), tmp_path / "shop")
    assert [c.code for c in one.run.validity.reasons] == ["no_send_times"]
    assert vllm_bench.NO_STARTS in one.origin.cannot_recover


def test_an_appended_file_is_as_many_runs_as_it_has_lines(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps(CHAT) + "\n" + json.dumps(CHAT | {"request_rate": "inf"}))
    runs = imported_runs(path, tmp_path / "shop")
    assert [one.origin.part for one in runs] == [0, 1]
    assert len({one.run.run for one in runs}) == 2


@pytest.mark.parametrize(("name", "cut"), [("errors", ["", ""]), ("start_times", [])])
def test_a_list_that_was_cut_is_named(tmp_path: Path, name: str, cut: list[Any]) -> None:
    with pytest.raises(UsageError, match=f"`{name}` has {len(cut)} entries and `ttfts` 6"):
        vllm_bench.read(written(tmp_path, **{name: cut}))


def test_runs_of_the_same_lengths_compare_and_make_no_claim(tmp_path: Path) -> None:
    good: dict[str, Any] = {
        "errors": [""] * 6, "ttfts": [0.01] * 6, "itls": [CHAT["itls"][0]] * 6,
        "output_lens": [4] * 6,
    }  # fmt: skip
    folder = tmp_path / "shop"
    a = imported_run(written(tmp_path, **good), folder).run
    b = imported_run(written(tmp_path, **(good | {"ttfts": [0.06] * 6})), folder).run
    document = compare_runs(folder, a.run, b.run)
    assert document["claim"] is None
    assert document["improvement"]["ttft_s"] == pytest.approx(0.100 / 0.150)
    other = imported_run(written(tmp_path, **(good | {"input_lens": [11] * 6})), folder).run
    with pytest.raises(UsageError, match="different schedules"):
        compare_runs(folder, a.run, other.run)
