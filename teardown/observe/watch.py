"""Watch a stack while a run goes on; what was seen lands in the run's folder."""

import contextlib
import gzip
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from teardown.engagement import write_atomic
from teardown.observe.host import host_facts
from teardown.observe.sampler import GPU_FILE, HOST_FILE, METRICS_FILE, STATE_FILE

# The last sample waits at most for a silent page (sampler.PAGE_TIMEOUT_S), then the rows are kept.
STOP_TIMEOUT_S = 10.0
START_TIMEOUT_S = 10.0
POLL_S = 0.02
HOST_SCHEMA = "teardown.host/1"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchConfig:
    """What may be looked at. metrics_urls: one per replica; pid: the engine's process on this host.

    api_key_env names the environment variable that holds the key of the metrics pages.
    """

    metrics_urls: list[str] = field(default_factory=list)
    pid: int | None = None
    gpu: bool = True
    interval_s: float = 1.0
    api_key_env: str | None = None


class Watch:
    """Sample in a process of its own between enter and exit; see `teardown.observe.sampler`.

    At exit, with or without an error in the body, `folder` gets metrics.jsonl.gz and gpu.csv.gz
    (each only where there was something to see) and host.json.
    """

    def __init__(self, config: WatchConfig, folder: Path) -> None:
        self.config = config
        self.folder = folder
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._scratch = tempfile.TemporaryDirectory(prefix=".watch-", dir=self.folder)
        path = Path(self._scratch.name) / "config.json"
        document = {
            **asdict(self.config),
            "folder": self._scratch.name,
            "parent_pid": os.getpid(),
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        log = Path(self._scratch.name) / "sampler.log"
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "teardown.observe.sampler", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        # the first sample is the base that counters are differenced from: load waits for it
        first = Path(self._scratch.name) / HOST_FILE
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None and not _bytes(first):
            time.sleep(POLL_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process, scratch = self._process, self._scratch
        if process is None or scratch is None:
            return
        try:
            problem = _stop(process, Path(scratch.name) / "sampler.log")
            _keep(Path(scratch.name), self.folder, problem, self.config)
        finally:
            self._process = self._scratch = None
            scratch.cleanup()


def _stop(process: subprocess.Popen[bytes], log: Path) -> str | None:
    """End the sampler; return what was wrong with it, None when it ended as it should."""
    ended = process.poll()
    if ended is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"the sampler did not stop within {STOP_TIMEOUT_S:.0f} s and was killed"
    # SIGTERM before the handler stands ends a sampler that has seen nothing yet
    if process.returncode == 0:
        return None if ended is None else "the sampler stopped before the run ended"
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return f"the sampler ended with code {process.returncode}: {' '.join(last)}".rstrip(": ")


def _keep(scratch: Path, folder: Path, problem: str | None, config: WatchConfig) -> None:
    for name in (METRICS_FILE, GPU_FILE):
        rows = _bytes(scratch / name)
        if rows:
            write_atomic(folder / f"{name}.gz", gzip.compress(rows, mtime=0))
    state: dict[str, Any] = {"gpu": False, "gpu_reason": "the sampler did not start"}
    with contextlib.suppress(OSError, ValueError):
        state = json.loads((scratch / STATE_FILE).read_text(encoding="utf-8"))
    samples = []
    for line in _bytes(scratch / HOST_FILE).decode().splitlines():
        with contextlib.suppress(ValueError):  # a killed sampler may leave half a line
            samples.append(json.loads(line))
    document = {
        "schema": HOST_SCHEMA,
        **host_facts(),
        "pid": config.pid,
        "interval_s": config.interval_s,
        **state,
        "problem": problem,
        "samples": samples,
    }
    write_atomic(folder / "host.json", json.dumps(document, indent=1) + "\n")
    if problem:
        logger.warning("%s; %s may end early", problem, folder / "host.json")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
