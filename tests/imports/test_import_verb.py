"""The verb `import`, and the verbs that follow it, as a user meets them."""

import json
from pathlib import Path
from typing import Any

import pytest

from teardown.cli import main
from tests.imports.files import FIXTURES, RECORDINGS


def teardown(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, _ = teardown(capsys, *arguments, "--json")
    assert code == 0, out
    found: dict[str, Any] = json.loads(out)
    return found


def test_an_import_prints_what_cannot_be_recovered_and_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = teardown(
        capsys, "import", FIXTURES / "guidellm-concurrent.json.gz", "--into", tmp_path / "shop"
    )
    assert code == 0
    assert "cannot be recovered:" in out
    assert out.splitlines()[-1].startswith("next: teardown diagnose ")


def test_imported_runs_pass_through_the_verbs_that_follow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shop"
    found = document(
        capsys, "import", RECORDINGS / "sched_seqs8_c64", "--into", folder,
        "--model-config", RECORDINGS / "model_config.json", "--gpu", "H200",
    )  # fmt: skip
    run = found["run"]
    assert len(document(capsys, "requests", folder, "--run", run)["requests"]) == 128
    assert document(capsys, "diagnose", folder)["cause"] == "batch_cap"
    code, _, err = teardown(capsys, "plan", folder)
    assert code == 0, err
    code, out, err = teardown(capsys, "report", folder)
    assert code == 0, err
    assert "cannot be recovered" in (folder / "out" / "report.html").read_text()
    code, out, _ = teardown(capsys, "compare", folder, run, run)
    assert code == 0 and "one pair: no claim" in out


def test_aggregates_are_refused_in_one_sentence_by_the_verbs_that_need_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shop"
    run = document(capsys, "import", FIXTURES / "vllm-aggregates.json", "--into", folder)["run"]
    assert document(capsys, "requests", folder, "--run", run)["requests"] == []
    for arguments in (("diagnose", folder, "--run", run), ("compare", folder, run, run)):
        code, _, err = teardown(capsys, *arguments)
        assert code == 4 and len(err.strip().splitlines()) == 1, err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.json"], "does not exist"),
        ([RECORDINGS / "model_config.json"], "JSON of no tool"),
        ([FIXTURES / "vllm-chat.json", "--from", "guidelm"], "did you mean 'guidellm'"),
        ([FIXTURES / "vllm-chat.json", "--from", "guidellm"], "report schema None"),
        ([FIXTURES / "vllm-chat.json", "--map", "a=b"], "--map is for gateway logs"),
        ([FIXTURES], "neither a recording folder"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[Any], says: str
) -> None:
    code, _, err = teardown(capsys, "import", *arguments, "--into", tmp_path / "shop")
    assert code == 2
    assert says in err and len(err.strip().splitlines()) == 1
    assert not (tmp_path / "shop").exists()


def test_a_log_prints_its_traffic_and_how_to_send_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "edge.csv"
    log.write_text("ts,prompt,completion\n" + "".join(f"{i},{100 + i},5\n" for i in range(40)))
    mapping = "ts=arrival,prompt=input_tokens,completion=output_tokens"
    code, out, _ = teardown(capsys, "import", log, "--into", tmp_path / "shop", "--map", mapping)
    assert code == 0
    assert "kind: trace, trace: workload/edge.jsonl" in out.splitlines()[-1]
    found = document(capsys, "import", log, "--into", tmp_path / "shop", "--map", mapping)
    assert found["workload"]["rate_per_s"] == 1.0
