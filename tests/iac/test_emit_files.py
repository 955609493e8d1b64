"""What `teardown emit` writes, says and refuses.

Golden files: `UPDATE_GOLDEN=1 pytest tests/iac/test_emit_files.py` writes them anew.
"""

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from iac.verbs import emit
from teardown.errors import FeatureMissing, UsageError
from teardown.records import Bundle, read
from tests.iac.engagements import NASTY, launch_of, run_emit, stack, write_engagement

GOLDEN = Path(__file__).parent / "golden"
# the engine's own files carry no comment of ours; CONFIG_SHA256 beside them does
ENGINE_FILES = {"serve.py", "engine.json"}


def _tree(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text(encoding="utf-8")
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_artefacts_are_those_that_were_reviewed(tmp_path: Path, engine: str) -> None:
    folder = write_engagement(tmp_path / "e", engine=engine, host="10.0.0.5")
    out = run_emit(folder)
    made = {n: t for n, t in _tree(out).items() if Path(n).name not in ENGINE_FILES}
    golden = GOLDEN / engine
    if os.environ.get("UPDATE_GOLDEN") == "1":
        for path in golden.rglob("*"):
            if path.is_file():
                path.unlink()
        for name, text in made.items():
            (golden / name).parent.mkdir(parents=True, exist_ok=True)
            (golden / name).write_text(text, encoding="utf-8")
    assert made == _tree(golden)


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    first = _tree(run_emit(write_engagement(tmp_path / "a", client=NASTY)))
    second = _tree(run_emit(write_engagement(tmp_path / "b", client=NASTY)))
    assert first == second
    assert _tree(run_emit(tmp_path / "a")) == first


def test_every_file_carries_its_configuration_hash(tmp_path: Path) -> None:
    out = run_emit(write_engagement(tmp_path / "e", client=NASTY))
    sha256 = read(Bundle, out / "bundle.json").config_sha256
    for name, text in _tree(out).items():
        if Path(name).name in ENGINE_FILES:
            continue
        if name.startswith("rollback/"):
            assert name.split("/")[1] in text, name
        else:
            assert sha256 in text, name


def test_the_bundle_lists_exactly_what_was_written(tmp_path: Path) -> None:
    out = run_emit(write_engagement(tmp_path / "e"))
    assert read(Bundle, out / "bundle.json").files == sorted(_tree(out))


def test_the_hash_follows_options_host_and_launch_but_not_what_the_engine_said(
    tmp_path: Path,
) -> None:
    def sha256(name: str, **changes: object) -> str:
        out = run_emit(write_engagement(tmp_path / name, **changes))  # type: ignore[arg-type]
        return read(Bundle, out / "bundle.json").config_sha256

    base = sha256("base")
    said = dataclasses.replace(stack(parallel=4), effective={"parallel": 4})
    assert sha256("said", accepted=said) == base
    assert sha256("client", client=NASTY) == base
    assert len({base, sha256("port", port=9), sha256("option", accepted=stack(parallel=5))}) == 3


def test_no_change_emits_the_original_with_a_note_and_nothing_to_roll_back_to(
    tmp_path: Path,
) -> None:
    folder = write_engagement(tmp_path / "e", accepted=None)
    result = CliRunner().invoke(emit, [str(folder)])
    assert result.exit_code == 0, result.output
    assert "note: No change helped" in result.output
    assert not (folder / "out" / "rollback").exists()
    bundle = read(Bundle, folder / "out" / "bundle.json")
    assert bundle.stack == bundle.previous
    assert "There is no other release" in (folder / "out/runbook/LLMServerDown.md").read_text()


def test_an_endpoint_gets_monitoring_and_runbook_and_exit_code_3(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e", accepted=None, launch=None)
    with pytest.raises(FeatureMissing, match="cannot start") as caught:
        run_emit(folder)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    made = _tree(folder / "out")
    assert {name.split("/")[0] for name in made} == {"bundle.json", "monitoring", "runbook"}
    assert "10.0.0.5:8080" in made["monitoring/prometheus.yml"]
    assert "systemctl" not in "".join(made.values())


def test_an_endpoint_of_an_unknown_engine_gets_nothing(tmp_path: Path) -> None:
    odd = dataclasses.replace(stack(), engine="other")
    folder = write_engagement(tmp_path / "e", original=odd, accepted=None, launch=None)
    with pytest.raises(FeatureMissing, match="nothing was written"):
        run_emit(folder)
    assert not (folder / "out").exists()


def test_what_an_earlier_emit_left_is_removed_and_the_clients_files_stay(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e")
    out = run_emit(folder)
    (out / "report.html").write_text("theirs")
    (old,) = (out / "stack").iterdir()
    write_engagement(folder, accepted=stack(parallel=8))
    run_emit(folder)
    assert not old.exists()
    assert (out / "report.html").read_text() == "theirs"


def test_a_bundle_that_names_paths_outside_removes_nothing(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e")
    kept = folder / "verdict.json"
    (folder / "out").mkdir()
    (folder / "out/bundle.json").write_text(json.dumps({"files": ["../verdict.json", 5, ""]}))
    run_emit(folder)
    assert kept.exists()


def test_json_is_one_document(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e")
    result = CliRunner().invoke(emit, [str(folder), "--json"])
    document = json.loads(result.stdout)
    assert document["schema"] == "teardown.emit/1"
    assert document["files"] == sorted(_tree(folder / "out"))
    assert len(document["config_sha256"]) == 64


def test_the_list_ends_with_the_next_command(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e")
    result = CliRunner().invoke(emit, [str(folder)])
    assert result.output.splitlines()[-1] == f"next: teardown report {folder}"


def test_a_missing_verdict_names_the_verb_that_writes_it(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e")
    (folder / "verdict.json").unlink()
    with pytest.raises(UsageError, match="teardown tune"):
        run_emit(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("install_dir", "relative/dir"),
        ("install_dir", "/opt"),
        ("install_dir", "/opt/../etc"),
        ("install_dir", "/opt/a b"),
        ("install_dir", "/opt/$(reboot)"),
        ("port", 0),
        ("port", 70000),
        ("user", "root; reboot"),
        ("user", "a\nb"),
        ("python", "python3 -c"),
        ("host", "a b"),
        ("host", ""),
        ("host", "-oProxyCommand=x"),
    ],
)
def test_a_deploy_that_fits_no_path_or_command_is_refused(
    tmp_path: Path, field: str, value: object
) -> None:
    folder = write_engagement(tmp_path / "e", **{field: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=rf"deploy\.{field}") as caught:
        run_emit(folder)
    assert "\n" not in str(caught.value)
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("argv", []),
        ("argv", ["a\0b"]),
        ("files", {"../x": ""}),
        ("files", {"/etc/x": ""}),
        ("files", {"start": ""}),
        ("env", {"A B": "c"}),
        ("packages", ["--index-url=x"]),
        ("health_path", "/a b"),
    ],
)
def test_a_launch_that_cannot_be_written_is_refused(
    tmp_path: Path, field: str, value: object
) -> None:
    launch = launch_of(stack(parallel=4), **{field: value})
    with pytest.raises(UsageError, match=r"verdict\.json: launch"):
        run_emit(write_engagement(tmp_path / "e", launch=launch))


@pytest.mark.parametrize("script", ["install.sh", "supervisor/run.sh", "stack", "rollback"])
def test_scripts_are_posix_shell(tmp_path: Path, script: str) -> None:
    out = run_emit(write_engagement(tmp_path / "e", client=NASTY))
    path = out / script
    if path.is_dir():
        path = next(path.glob("*/start"))
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0


def test_the_model_is_hashed_where_it_lies(tmp_path: Path) -> None:
    model = tmp_path / "it's $odd.gguf"
    model.write_bytes(b"GGUF")
    tuned = dataclasses.replace(stack(parallel=4), model=str(model))
    before = dataclasses.replace(stack(parallel=1), model=str(model))
    out = run_emit(write_engagement(tmp_path / "e", accepted=tuned, original=before))
    sha256 = read(Bundle, out / "bundle.json").model_sha256
    assert sha256 is not None
    assert sha256 in (out / "install.sh").read_text()
    assert str(tmp_path) not in (out / "install.sh").read_text()
