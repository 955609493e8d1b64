"""The probe's process: what it cannot do is an error of the right kind, never a traceback."""

import sys
from pathlib import Path

import pytest

from teardown.errors import TeardownError, UsageError
from teardown.load.probe import ProbePlan, run_probe
from tests.fakes.engine import FakeEngine
from tests.preflight.endpoints import endpoint


def test_the_process_reports_what_the_client_saw() -> None:
    with FakeEngine(endpoint()) as fake:
        report = run_probe(ProbePlan(url=fake.url, model="fake", idle_s=0.0))
    main = report.reply("main")
    assert main is not None
    assert len(main.request.chunk_s) == 32
    assert main.request.ttft_s is not None
    assert 0.03 <= main.request.ttft_s < 0.06
    assert report.lag_p50_s is not None
    assert report.lag_p50_s < 0.01


def test_an_address_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not an http or https address"):
        run_probe(ProbePlan(url="ftp://host/v1", model="fake"))


def test_a_process_that_dies_is_named_with_its_last_line(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nraise SystemExit('out of luck')\n")
    python.chmod(0o755)
    with pytest.raises(TeardownError, match="out of luck"):
        run_probe(ProbePlan(url="http://127.0.0.1:9/v1", model="fake"), str(python))


def test_a_process_that_says_nothing_left_no_report() -> None:
    with pytest.raises(TeardownError, match="left no report"):
        run_probe(ProbePlan(url="http://127.0.0.1:9/v1", model="fake"), "/bin/true")
