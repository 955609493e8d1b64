"""The command: every verb answers `--help` fast, says its reasons, and keeps its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from teardown.cli import VERBS

NOT_THERE_YET = [
    ["worker", "--join", "host"],
    ["forget", "d"],
    ["bakeoff", "d"],
    ["validate", "vllm", "--version", "0.30", "--gpu", "H200", "--", "--enforce-eager"],
    ["kv", "size", "--config", "c.json", "--context", "4096", "--type", "q8_0"],
    ["kv", "codec", "--type", "q8_0"],
    ["kv", "pick"],
    ["kv", "quality"],
    ["report", "d", "--recheck"],
]


def teardown(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "teardown.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=60)


@pytest.mark.parametrize("verb", [*VERBS, ""])
def test_every_verb_answers_help(verb: str) -> None:
    result = teardown(*([verb] if verb else []), "--help")
    assert result.returncode == 0
    assert "Usage: teardown" in result.stdout


def test_help_imports_no_engine_and_none_of_the_heavy_packages() -> None:
    heavy = {"locust", "gevent", "pandas", "pyarrow", "scipy", "numpy", "xllamacpp", "altair"}
    for verb in VERBS:
        code = (
            "import sys; from teardown.cli import main\n"
            f"try: main(['{verb}', '--help'])\n"
            "except SystemExit: pass\n"
            f"print('HEAVY', sorted({heavy!r} & set(sys.modules)))"
        )
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert "HEAVY []" in result.stdout, verb


@pytest.mark.parametrize("arguments", NOT_THERE_YET, ids=lambda a: " ".join(a[:2]))
def test_a_verb_that_is_not_there_yet_exits_3_with_its_reason(
    arguments: list[str], tmp_path: Path
) -> None:
    result = teardown(*arguments, cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    assert "not there yet" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_mistyped_verb_names_the_nearest() -> None:
    result = teardown("mesure")
    assert result.returncode == 2
    assert "did you mean `measure`" in result.stderr


def test_an_error_with_json_is_one_document(tmp_path: Path) -> None:
    result = teardown("measure", str(tmp_path / "none"), "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["exit_code"] == 2
    assert "Traceback" not in result.stderr


def test_an_unreachable_url_is_one_sentence_and_exit_3(tmp_path: Path) -> None:
    result = teardown("init", str(tmp_path / "e"), "--url", "http://127.0.0.1:9/v1")
    assert result.returncode == 3
    assert "cannot be reached" in result.stderr
    assert not (tmp_path / "e" / "engagement.yaml").exists()
