import dataclasses
import json
import os
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.build import build_report
from reports.dossier import Dossier, read_dossier
from reports.render import render, to_html
from reports.svg import Drawn, draw
from reports.verbs import report
from reports.words import CAUSE_WORDS, CLASS_WORDS, METRIC_WORDS
from teardown.errors import FeatureMissing, UsageError
from teardown.records import CAUSES, TIME_CLASSES
from teardown.settings import METRICS
from tests.reports import samples
from tests.reports.page import Page
from tests.reports.poison import poisoned

GOLDEN = Path(__file__).parent / "golden"
VERSION = "0.0.0"


def without_charts(dossier: Dossier) -> str:
    return to_html(build_report(dossier, VERSION), Drawn({}, ""))


@pytest.fixture(scope="module")
def improved() -> str:
    return render(samples.dossier("improved"), VERSION)


# ---- what it says


@pytest.mark.parametrize("outcome", samples.OUTCOMES)
def test_the_page_is_the_golden_one(outcome: str) -> None:
    """The drawings are left out: their bytes belong to the version of the drawing package."""
    html = without_charts(samples.dossier(outcome))
    path = GOLDEN / f"{outcome}.html"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(html, encoding="utf-8")
    assert html == path.read_text(encoding="utf-8"), "UPDATE_GOLDEN=1 writes it anew"


def test_an_improvement_is_told_with_its_interval_and_its_evidence(improved: str) -> None:
    text = " ".join(Page(improved).text.split())
    for words in (
        "The median user waits 180 ms",
        "VALID WITH WARNINGS",
        "56.3 % lower 95 % interval [54.5, 58.0] %, n = 4 pairs",
        "~ no measurable change",
        "Waiting for the server's turn",
        "confidence 86 %",
        "slots busy: 98 %",
        "− parallel: 1 + parallel: 8",
        "n too small: 662 needed",
        "llama.cpp b7214",
        "goal, median time to first token at least 1.2× better: reached",
    ):
        assert words in text


@pytest.mark.parametrize("outcome", ["invalid", "simulated"])
def test_the_sentence_is_withheld_from_runs_that_may_not_be_used(outcome: str) -> None:
    text = Page(without_charts(samples.dossier(outcome))).text
    assert "The median user waits" not in text
    assert outcome.upper() in text
    if outcome == "invalid":
        assert "56.3 % lower" not in text


def test_one_simulated_run_among_many_is_enough_to_withhold() -> None:
    dossier = samples.dossier("improved")
    runs = [*dossier.runs[:-1], dataclasses.replace(dossier.runs[-1], simulated=True)]
    text = Page(without_charts(dataclasses.replace(dossier, runs=runs))).text
    assert "1 of 11 runs simulated" in text and "The median user waits" not in text


def test_an_abstention_is_said_plainly() -> None:
    assert "We cannot tell what limits this stack" in without_charts(samples.dossier("abstained"))


def test_that_nothing_helps_is_an_answer_and_not_a_failure() -> None:
    text = Page(without_charts(samples.dossier("no_change_helps"))).text
    assert "Leave it as it is" in text
    assert "the stack stays as it is" in text
    assert "teardown emit" not in text


def test_proposals_carry_their_predicted_gain() -> None:
    text = " ".join(Page(without_charts(samples.dossier("proposed_only"))).text.split())
    assert "Serve eight requests at once 2.2× [1.9, 2.5] expected" in text


def test_what_is_missing_is_named_with_the_verb_that_adds_it() -> None:
    text = Page(without_charts(samples.dossier("measured_only"))).text
    for verb in ("diagnose", "plan", "tune", "emit"):
        assert f"teardown {verb} DIR" in text


def test_a_difference_that_nobody_intended_is_a_warning() -> None:
    dossier = samples.dossier("improved")
    last = next(r for r in reversed(dossier.runs) if r.run == "r0009-after-office-hours")
    target = dataclasses.replace(
        last.target, effective={**last.target.effective, "batch-size": 512}
    )
    runs = [dataclasses.replace(r, target=target) if r is last else r for r in dossier.runs]
    text = Page(without_charts(dataclasses.replace(dossier, runs=runs))).text
    assert "these differ besides the intended change" in text and "NOT intended" in text


def test_secrets_and_paths_of_the_host_are_not_printed() -> None:
    dossier = samples.dossier("improved")
    target = dataclasses.replace(
        dossier.runs[0].target,
        model="/home/someone/models/smollm2.gguf",
        options={"api-key": "sk-very-secret", "parallel": 1},
    )
    runs = [dataclasses.replace(r, target=target) for r in dossier.runs]
    html = without_charts(dataclasses.replace(dossier, runs=runs))
    assert "sk-very-secret" not in html and "/home/someone" not in html
    assert "…/smollm2.gguf" in html


def test_every_word_of_the_closed_lists_has_plain_words() -> None:
    assert set(CLASS_WORDS) >= set(TIME_CLASSES)
    assert set(CAUSE_WORDS) >= {cause for causes in CAUSES.values() for cause in causes}
    assert set(METRIC_WORDS) >= set(METRICS)


# ---- what it is


def test_the_same_records_give_the_same_bytes(improved: str) -> None:
    assert render(samples.dossier("improved"), VERSION) == improved


def test_the_file_is_small_and_nothing_leaves_it(improved: str) -> None:
    page = Page(improved)
    assert len(improved.encode()) < 500 * 1024
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(
        page.tags
    )
    assert all(href.startswith("#") for href in page.values("href"))
    assert not page.values("src") and not page.values("style")
    elsewhere = re.findall(r"https?://[^\s\"'<]+", improved)
    assert set(elsewhere) <= {"http://www.w3.org/2000/svg"}
    assert "url(http" not in improved and "@import" not in improved


def test_every_link_and_label_has_its_target_and_no_id_is_used_twice(improved: str) -> None:
    page = Page(improved)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for anchor in page.values("href"):
        assert anchor.removeprefix("#") in ids
    for labels in page.values("aria-labelledby"):
        assert set(labels.split()) <= set(ids)


def test_every_chart_is_an_image_with_a_question_a_description_and_a_table(improved: str) -> None:
    page = Page(improved)
    drawings = [attrs for tag, attrs in page.elements if tag == "svg"]
    assert len(drawings) == 4
    assert all(attrs["role"] == "img" for attrs in drawings)
    for chart in ("shares", "predicted", "pairs", "ttft"):
        assert {f"{chart}-title", f"{chart}-desc"} <= set(page.values("id"))
    assert improved.count("<summary>The same numbers as a table</summary>") == 4


@pytest.mark.parametrize("outcome", ["proposed_only", "abstained", "measured_only"])
def test_an_engagement_with_gaps_can_be_drawn(outcome: str) -> None:
    drawn = draw(build_report(samples.dossier(outcome), VERSION).charts)
    assert not drawn.missing
    assert all("fill-ink" in svg and "role=" in svg for svg in drawn.svg_by_chart.values())


def test_without_the_drawing_packages_the_tables_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    html = render(samples.dossier("improved"), VERSION)
    assert "<svg" not in html
    assert "The charts are not drawn: the package vl_convert is not installed" in html
    assert html.count("<details open>") == 4


# ---- what it cannot be made to do

PAYLOADS = st.one_of(
    st.sampled_from(
        [
            "\"'><script>alert(1)</script>",
            "</style><img src=x onerror=alert(1)>",
            "</title></svg><iframe src='//evil'>",
            "{{ 7*7 }}{% raw %}",
            "&lt;script&gt;<!--",
            "]]><svg onload=alert(1)>",
            "'; signal: data('x'); //",
            "\ud800\x00\u202e<b>",
            "x" * 400,
        ]
    ),
    st.text(alphabet=st.sampled_from("<>&\"'/={}%!-;\\ \n\0\u202eaé"), max_size=40),
)


def assert_harmless(html: str, plain: str) -> None:
    page, reference = Page(html), Page(plain)
    assert [t for t in page.tags if t not in ("tspan",)] == [
        t for t in reference.tags if t not in ("tspan",)
    ]
    allowed = {name for _, attrs in reference.elements for name in attrs}
    assert {name for _, attrs in page.elements for name in attrs} <= allowed
    assert all(href.startswith("#") for href in page.values("href"))


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(payload=PAYLOADS, outcome=st.sampled_from(["improved", "proposed_only", "abstained"]))
def test_no_text_of_any_record_becomes_markup(payload: str, outcome: str) -> None:
    dossier = samples.dossier(outcome)
    # A payload of no visible character leaves the words alone; `p` keeps it a poison.
    plain = without_charts(poisoned(dossier, "p"))
    assert_harmless(without_charts(poisoned(dossier, "p" + payload)), plain)


def test_no_text_of_any_record_becomes_markup_inside_a_drawing() -> None:
    payload = "</text></svg><script>alert(1)</script>\"'\ud800"
    page = Page(render(poisoned(samples.dossier("improved"), payload), VERSION))
    assert "script" not in page.tags
    assert page.tags.count("svg") == 4


# ---- the verb


def test_the_verb_writes_the_file_and_prints_its_hash(tmp_path: Path) -> None:
    import hashlib

    samples.write(tmp_path, samples.dossier("improved"))
    result = CliRunner().invoke(report, [str(tmp_path), "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    written = (tmp_path / "out" / "report.html").read_bytes()
    assert document == {
        "schema": "teardown.report/1",
        "path": str(tmp_path / "out" / "report.html"),
        "sha256": hashlib.sha256(written).hexdigest(),
    }
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["sha256"]["out/report.html"] == document["sha256"]
    again = CliRunner().invoke(report, [str(tmp_path), "--json"], catch_exceptions=False)
    assert json.loads(again.stdout) == document


def test_the_verb_prints_path_sentence_and_next_command(tmp_path: Path) -> None:
    samples.write(tmp_path, samples.dossier("measured_only"))
    result = CliRunner().invoke(report, [str(tmp_path)], catch_exceptions=False)
    assert result.stdout.splitlines() == [
        str(tmp_path / "out" / "report.html"),
        "1 run measured; no change has been proved yet.",
        f"next: teardown diagnose {tmp_path}",
    ]


def test_after_an_invalid_run_the_next_command_measures_again(tmp_path: Path) -> None:
    samples.write(tmp_path, samples.dossier("invalid"))
    result = CliRunner().invoke(report, [str(tmp_path)], catch_exceptions=False)
    assert result.stdout.splitlines()[-1] == f"next: teardown measure {tmp_path}"


def test_an_improvement_factor_of_a_latency_reads_as_lower() -> None:
    """Records hold improvements, above 1 being better; the tile says what became of the value."""
    text = without_charts(samples.dossier("improved"))
    assert "56.3 % lower" in text and "19 % higher" in text


def test_a_folder_without_a_run_is_one_sentence_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "engagement.yaml").write_text(samples.ENGAGEMENT, encoding="utf-8")
    (tmp_path / "runs" / "r0001-before-x").mkdir(parents=True)
    with pytest.raises(UsageError, match="holds no finished run"):
        read_dossier(tmp_path)
    result = CliRunner().invoke(report, [str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    assert not (tmp_path / "out").exists()


def test_a_recheck_is_not_there_yet(tmp_path: Path) -> None:
    result = CliRunner().invoke(report, [str(tmp_path), "--recheck"])
    assert isinstance(result.exception, FeatureMissing)


def test_what_is_read_from_a_folder_is_what_was_written(tmp_path: Path) -> None:
    sample = samples.dossier("improved")
    samples.write(tmp_path, sample)
    found = read_dossier(tmp_path)
    assert dataclasses.replace(found, sha256=sample.sha256) == sample
    assert "runs/r0001-before-office-hours/run.json" in found.sha256
