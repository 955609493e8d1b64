"""Bad input and bad luck: one clear sentence, the right exit code, and nothing measured is lost."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from teardown.engines.embedded import embedded_model
from teardown.records import Run, read
from tests.desk import (
    BADLY_SERVED,
    all_records,
    engine_pid,
    finish,
    journal_ends,
    start,
    wait_for,
    write_desk,
)
from tests.fakes.engine import FakeEngine, chat_stream


@pytest.fixture(scope="module")
def model() -> Path:
    return embedded_model(None)


def run(*arguments: str) -> tuple[int, str]:
    code, output = finish(start(*arguments), timeout_s=120)
    assert "Traceback" not in output
    return code, output


def test_a_wrong_model_name_is_answered_with_the_right_ones(tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "hello"}\n')
    with FakeEngine(chat_stream(["a", "b"]), model="smollm2") as fake:
        code, output = run(
            "measure", str(tmp_path / "e"), "--url", fake.url, "--model", "smollm3",
            "--prompts", str(prompts), "--requests", "1",
        )  # fmt: skip
    assert code == 3
    assert "serves smollm2, not 'smollm3'" in output


def test_a_model_file_that_is_no_gguf_is_named(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_text("this is not a model")
    engagement = write_desk(tmp_path / "desk", model, BADLY_SERVED)
    code, output = run("measure", str(engagement.folder))
    assert code == 3
    assert "GGUF" in output
    assert len(output.strip().splitlines()) <= 3


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    engagement = write_desk(tmp_path / "desk", tmp_path / "none.gguf", BADLY_SERVED)
    code, output = run("measure", str(engagement.folder))
    assert code == 3
    assert "none.gguf" in output


def test_a_port_in_use_is_named(tmp_path: Path, model: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        engagement = write_desk(tmp_path / "desk", model, BADLY_SERVED)
        text = engagement.settings_path.read_text()
        engagement.settings_path.write_text(
            text.replace("  model: smollm2", f"  model: smollm2\n  url: http://127.0.0.1:{port}/v1")
        )
        code, output = run("measure", str(engagement.folder))
    assert code == 3
    assert str(port) in output


def test_an_option_that_the_engine_does_not_know_is_named(tmp_path: Path, model: Path) -> None:
    engagement = write_desk(tmp_path / "desk", model, {"paralel": 1})
    code, output = run("measure", str(engagement.folder))
    assert code in (2, 3)
    assert "paralel" in output


@pytest.mark.engine
def test_a_server_that_dies_in_mid_run_loses_nothing_that_was_measured(
    tmp_path: Path, model: Path
) -> None:
    engagement = write_desk(tmp_path / "desk", model, BADLY_SERVED)
    kit = start("measure", str(engagement.folder))
    wait_for(kit, lambda: len(journal_ends(engagement)) >= 2, "the second answer")
    measured = journal_ends(engagement)
    pid = engine_pid(engagement)
    assert pid is not None
    os.kill(pid, 9)
    code, output = finish(kit)
    assert code == 3, output
    assert "Traceback" not in output
    assert "requests were answered and are kept in runs/" in output
    records = all_records(engagement)
    assert measured.keys() <= records.keys()
    (run_id,) = engagement.run_ids()
    kept = read(Run, engagement.run_dir(run_id) / "run.json")
    assert kept.validity.verdict == "invalid"
    assert kept.summary is None
    again, output = finish(start("requests", str(engagement.folder), "--run", run_id))
    assert again == 0
    assert "refused" in output or "cut" in output or "error" in output


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 KiB that the test may fill."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.engine
def test_a_full_disk_is_one_sentence_and_keeps_what_was_measured(
    small_disk: Path, model: Path
) -> None:
    engagement = write_desk(small_disk / "desk", model, BADLY_SERVED)
    kit = start("measure", str(engagement.folder))
    wait_for(kit, lambda: len(journal_ends(engagement)) >= 2, "the second answer")
    measured = journal_ends(engagement)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    code, output = finish(kit)
    assert code == 3, output
    assert "Traceback" not in output
    assert "No space left" in output
    filler.unlink()
    assert measured.keys() <= journal_ends(engagement).keys()
    code, output = finish(start("measure", str(engagement.folder)))
    assert code in (0, 4), output
    assert measured.keys() <= all_records(engagement).keys()
