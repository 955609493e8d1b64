"""Record metrics pages, GPU and host once a second, in a process of its own.

    python -m teardown.observe.sampler CONFIG.json

CONFIG.json holds the fields of `WatchConfig` and `folder`. The first sample is taken at once, the
last on SIGTERM. Rows are flushed as they come: a killed sampler loses nothing that it saw. A page
that does not answer is a row with its error, never the end. Times `t` are Unix seconds.
"""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from teardown.errors import TeardownError, UsageError
from teardown.http import fetch
from teardown.observe.gpu import GPU_COLUMNS, Gpus
from teardown.observe.host import HostReader

METRICS_FILE, GPU_FILE, HOST_FILE, STATE_FILE = (
    "metrics.jsonl",
    "gpu.csv",
    "host.jsonl",
    "sampler.json",
)
# A page slower than this is recorded as silent; engines under load answer within 0.1 s.
PAGE_TIMEOUT_S = 5.0
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int | None) -> None:
    """Have the kernel send SIGTERM when the parent ends; end now when it already has."""
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)


def scrape(url: str, api_key: str | None, clock: Callable[[], float]) -> dict[str, Any]:
    """Return one row of metrics.jsonl; `t` is the middle of the exchange."""
    began = clock()
    try:
        text = fetch(url, timeout_s=PAGE_TIMEOUT_S, api_key=api_key)
    except TeardownError as error:
        return {"t": began, "url": url, "error": str(error)}
    return {"t": (began + clock()) / 2, "url": url, "text": text}


def sample(config: dict[str, Any], stop: threading.Event) -> None:
    """Sample until `stop` is set, and once more then."""
    folder, interval = Path(config["folder"]), float(config["interval_s"])
    key_name = config.get("api_key_env")
    api_key = os.environ.get(key_name) if key_name else None
    urls, parent = list(config["metrics_urls"]), config.get("parent_pid")
    gpus = Gpus(wanted=bool(config["gpu"]))
    host = HostReader(config["pid"])
    _write_state(folder, gpus)
    with (
        (folder / METRICS_FILE).open("a", encoding="utf-8") as metrics,
        (folder / GPU_FILE).open("a", encoding="utf-8") as gpu,
        (folder / HOST_FILE).open("a", encoding="utf-8") as hosts,
        ThreadPoolExecutor(max_workers=max(1, len(urls))) as pool,
    ):
        if gpus.reason is None:
            gpu.write(",".join(GPU_COLUMNS) + "\n")
        due = time.monotonic()
        last = False
        while True:
            pages = [pool.submit(scrape, url, api_key, time.time) for url in urls]
            hosts.write(json.dumps(host.row(time.time())) + "\n")
            for row in gpus.rows(time.time()):
                gpu.write(",".join(row) + "\n")
            for page in pages:
                metrics.write(json.dumps(page.result()) + "\n")
            for file in (metrics, gpu, hosts):  # host last: `Watch` takes it as "sampled once"
                file.flush()
            if last or parent not in (None, os.getppid()):
                break
            due = max(due + interval, time.monotonic())
            last = stop.wait(max(0.0, due - time.monotonic()))
    _write_state(folder, gpus)


def _write_state(folder: Path, gpus: Gpus) -> None:
    state = {"gpu": gpus.reason is None, "gpu_reason": gpus.reason, "gpu_names": gpus.names}
    (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")


def read_config(path: Path) -> dict[str, Any]:
    """Read CONFIG.json; UsageError names the file."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise UsageError(f"{path} is not a JSON object")
    return config


def main() -> NoReturn:
    """Sample until SIGTERM or SIGINT."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m teardown.observe.sampler CONFIG.json")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        config = read_config(Path(sys.argv[1]))
        die_with_parent(config.get("parent_pid"))
        sample(config, stop)
    except TeardownError as error:
        raise SystemExit(str(error)) from error
    raise SystemExit(0)


if __name__ == "__main__":
    main()
