"""The whole chain on the real engine: killed, resumed, restricted, and with nothing to find."""

import json
from pathlib import Path

import pytest

from teardown.engagement import Engagement
from teardown.engines.embedded import embedded_model
from teardown.records import Attribution, Run, Trial, VerdictRecord, read
from tests.desk import (
    BADLY_SERVED,
    WELL_SERVED,
    all_records,
    engine_pid,
    finish,
    journal_ends,
    kill,
    start,
    wait_for,
    wait_until_gone,
    write_desk,
)

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model() -> Path:
    return embedded_model(None)


def verdict_of(engagement: Engagement) -> VerdictRecord:
    return read(VerdictRecord, engagement.verdict_path)


def test_a_kit_killed_in_measurement_and_in_a_trial_finishes_without_losing_a_record(
    tmp_path: Path, model: Path
) -> None:
    engagement = write_desk(tmp_path / "desk", model, BADLY_SERVED)
    folder = str(engagement.folder)
    kit = start("run", folder, "--yes")
    wait_for(kit, lambda: len(journal_ends(engagement)) >= 3, "the third answer")
    engine = engine_pid(engagement)
    kill(kit)
    assert engine is not None
    wait_until_gone(engine)
    measured = journal_ends(engagement)

    kit = start("run", folder, "--yes")
    wait_for(
        kit,
        lambda: (
            engagement.trials_dir.exists()
            and any(key[0].split("-")[1] != "before" for key in journal_ends(engagement))
        ),
        "an answer in a trial",
    )
    engine = engine_pid(engagement)
    kill(kit)
    assert engine is not None
    wait_until_gone(engine)
    measured |= journal_ends(engagement)

    code, output = finish(start("run", folder, "--yes"))
    assert code == 0, output
    records = all_records(engagement)
    for key, record in measured.items():
        assert key in records, f"{key} was measured and is lost"
        assert records[key].text_sha256 == record.get("text_sha256")
    before = [r for r in engagement.run_ids() if "-before-" in r]
    assert len(before) == 1, "the interrupted measurement is resumed, not made again"
    assert len(read(Run, engagement.run_dir(before[0]) / "run.json").segments) == 2
    state = json.loads((engagement.target_dir / "state.json").read_text())
    assert state["present"] == state["original"] == BADLY_SERVED
    last = engine_pid(engagement)
    if last is not None:
        wait_until_gone(last)
    assert verdict_of(engagement).outcome in ("improved", "no_change_helps")
    assert (engagement.out_dir / "report.html").exists()
    assert not list(engagement.folder.glob("runs/*/requests.wal.jsonl"))


def test_a_well_served_desk_ends_in_no_change_helps(tmp_path: Path, model: Path) -> None:
    engagement = write_desk(tmp_path / "desk", model, WELL_SERVED)
    code, output = finish(start("run", str(engagement.folder), "--yes"))
    assert code == 0, output
    verdict = verdict_of(engagement)
    assert verdict.outcome == "no_change_helps", verdict.sentence
    assert "No change helps" in output
    assert verdict.accepted is None
    assert (engagement.out_dir / "report.html").exists()


@pytest.mark.parametrize("metrics", ["read", "none"])
def test_without_restarts_the_plan_is_the_product(
    tmp_path: Path, model: Path, metrics: str
) -> None:
    """Endpoint-only and metrics-read-only: measure, attribute with less confidence, propose."""
    served = write_desk(tmp_path / "server", model, BADLY_SERVED)
    from teardown.targets import make_target

    server = make_target(served.settings(), served)
    server.start()
    try:
        engagement = write_desk(
            tmp_path / "desk",
            model,
            {},
            access={"metrics": metrics, "logs": "none", "host": "none", "restart": "never"},
            target={"kind": "endpoint", "engine": "auto", "url": server.url, "model": server.model},
        )
        code, output = finish(start("run", str(engagement.folder)))
        assert code == 0, output
    finally:
        server.stop()
    verdict = verdict_of(engagement)
    assert verdict.outcome == "proposed_only"
    assert not list(engagement.folder.glob("trials/*/trial.json"))
    attribution = read(Attribution, engagement.attribution_path)
    assert attribution.confidence < 0.9
    if metrics == "none":
        assert not list(engagement.folder.glob("runs/*/metrics.jsonl.gz"))
    assert (engagement.out_dir / "report.html").exists()


def test_a_trial_record_names_both_runs_of_its_pair(tmp_path: Path, model: Path) -> None:
    engagement = write_desk(
        tmp_path / "desk",
        model,
        BADLY_SERVED,
        budgets={"trials": 1, "pairs": 4, "oracle_prompts": 3, "oracle_tokens": 8},
    )
    code, output = finish(start("run", str(engagement.folder), "--yes"))
    assert code == 0, output
    trials = [read(Trial, p) for p in engagement.folder.glob("trials/*/trial.json")]
    assert {t.kind for t in trials} >= {"screen"}
    for trial in trials:
        for pair in trial.pairs:
            assert (engagement.run_dir(pair.run_before) / "run.json").exists()
            assert (engagement.run_dir(pair.run_after) / "run.json").exists()
    again, _ = finish(start("run", str(engagement.folder), "--yes"))
    assert again == 0
    assert len(engagement.run_ids()) == len(set(engagement.run_ids()))
