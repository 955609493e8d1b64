"""Recorded runs of one engine become runs of the kit, and are attributed as they were made."""

import gzip
import json
from pathlib import Path

import pytest

from teardown.diagnosis import diagnose_run, newest_run
from teardown.engagement import Engagement
from teardown.errors import UsageError
from teardown.imports.keep import ImportedRun
from teardown.load.table import read_requests
from tests.imports.files import RECORDINGS, imported_run, imported_runs

NAMES = sorted(p.name for p in RECORDINGS.iterdir() if p.is_dir())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, ImportedRun]]:
    folder = tmp_path_factory.mktemp("shop")
    runs = imported_runs(RECORDINGS, folder)
    return folder, {one.run.workload: one for one in runs}


Shop = tuple[Path, dict[str, ImportedRun]]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_attributed_as_it_was_made(shop: Shop, name: str) -> None:
    folder, runs = shop
    engagement = Engagement(folder)
    found = diagnose_run(engagement, engagement.settings(), runs[name].run)
    label = json.loads((RECORDINGS / name / "meta.json").read_text())["label"]
    assert (found.time_class, found.cause) == (label["time_class"], label["cause"])
    assert found.confidence > 0.5


def test_the_truth_that_a_recording_carries_is_never_taken_over(shop: Shop) -> None:
    folder, _ = shop
    words = ("shares_estimated", "shares_tolerance", '"label"')
    for path in (folder / "runs").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(
                errors="replace"
            )
            assert not [w for w in words if w in text], path


def test_a_recording_brings_requests_metrics_gpu_log_and_model(shop: Shop) -> None:
    folder, runs = shop
    run_folder = Engagement(folder).run_dir(runs["weights_c8"].run.run)
    names = {p.name for p in run_folder.iterdir()}
    assert names >= {
        "requests.parquet", "metrics.jsonl.gz", "gpu.csv.gz", "engine.log.gz", "host.json",
        "model_config.json", "imported.json", "run.json",
    }  # fmt: skip
    assert len(read_requests(run_folder / "requests.parquet")) == 24
    assert runs["weights_c8"].run.target.version == "0.26.0"


def test_the_means_that_the_client_stated_are_found_again(shop: Shop) -> None:
    _, runs = shop
    for name in set(NAMES) - {"interference"}:
        for stated in runs[name].origin.stated:
            if stated.ours is not None:
                assert stated.ours == pytest.approx(stated.value, rel=0.005), (name, stated.name)
    assert any(s.ours is not None for s in runs["sched_seqs8_c64"].origin.stated)


def test_two_clients_of_one_engine_are_one_run(shop: Shop) -> None:
    folder, runs = shop
    one = runs["interference"]
    requests = read_requests(Engagement(folder).run_dir(one.run.run) / "requests.parquet")
    assert {r.request_id[0] for r in requests} == {"0", "1"}
    first = min(r.sent_s or 0.0 for r in requests if r.request_id[0] == "1")
    assert first > 1.5  # the second client came 2 s after the first
    assert all(s.ours is None for s in one.origin.stated)


def test_a_cache_that_the_prompts_may_not_explain_is_a_warning_and_not_a_verdict(
    shop: Shop,
) -> None:
    _, runs = shop
    (check,) = [c for c in runs["prefill_c16_8k"].run.validity.checks if c.code == "warm_cache"]
    assert (check.level, check.value) == ("warn", None)
    assert check.text.startswith("73.2%")
    (check,) = [c for c in runs["kv_c48_8k"].run.validity.checks if c.code == "warm_cache"]
    assert check.level == "ok" and check.value is not None


def test_what_the_client_never_measured_is_none_with_a_reason(shop: Shop) -> None:
    _, runs = shop
    checks = {c.code: c for c in runs["weights_c8"].run.validity.checks}
    for code in ("client_limited", "clock"):
        assert checks[code].value is None
        assert checks[code].text
    assert any("kernel stamp" in s for s in runs["weights_c8"].origin.cannot_recover)
    assert runs["weights_c8"].run.segments == []  # a clock of its own


def test_the_same_folder_twice_is_one_run(tmp_path: Path) -> None:
    first = imported_run(RECORDINGS / "weights_c8", tmp_path / "shop")
    again = imported_run(RECORDINGS / "weights_c8", tmp_path / "shop")
    assert (first.is_new, again.is_new) == (True, False)
    assert again.run == first.run
    assert Engagement(tmp_path / "shop").run_ids() == [first.run.run]


def test_without_a_run_of_the_stack_itself_the_imported_one_is_diagnosed(tmp_path: Path) -> None:
    one = imported_run(RECORDINGS / "weights_c8", tmp_path / "shop")
    assert newest_run(Engagement(tmp_path / "shop"), None) == one.run


def test_a_gpu_that_is_not_known_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="H200"):
        imported_run(RECORDINGS / "weights_c8", tmp_path / "shop", gpu="H2000")
    assert not (tmp_path / "shop").exists()


def test_a_gpu_against_the_engagements_own_word_is_refused(tmp_path: Path) -> None:
    imported_run(RECORDINGS / "weights_c8", tmp_path / "shop")
    settings = tmp_path / "shop" / "engagement.yaml"
    settings.write_text(settings.read_text() + "hardware: {gpu: L40S}\n")
    with pytest.raises(UsageError, match="L40S"):
        imported_run(RECORDINGS / "kv_c48_8k", tmp_path / "shop", gpu="H200")
