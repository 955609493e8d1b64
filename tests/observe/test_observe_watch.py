import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from teardown.observe.gpu import GPU_COLUMNS
from teardown.observe.host import HostReader
from teardown.observe.watch import Watch, WatchConfig


class Page(BaseHTTPRequestHandler):
    served = 0

    def do_GET(self) -> None:
        type(self).served += 1
        if self.path == "/broken" and self.served > 2:
            self.send_error(500)
            return
        body = f"requests_total {self.served}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    Page.served = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def _rows(folder: Path) -> list[dict[str, object]]:
    text = gzip.decompress((folder / "metrics.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def test_a_watch_leaves_pages_host_and_the_reason_for_what_it_could_not_see(url, tmp_path):
    config = WatchConfig(metrics_urls=[url + "/metrics"], pid=os.getpid(), interval_s=0.1)
    with Watch(config, tmp_path):
        began = time.time()
        time.sleep(0.5)
        ended = time.time()
    rows = _rows(tmp_path)
    assert len(rows) >= 3
    assert rows[0]["t"] <= began and rows[-1]["t"] >= ended - 0.1
    assert str(rows[0]["text"]).startswith("requests_total 1")
    host = json.loads((tmp_path / "host.json").read_text())
    assert host["schema"] == "teardown.host/1" and host["problem"] is None
    assert host["samples"][-1]["cpu_s"] >= host["samples"][0]["cpu_s"] > 0
    assert host["samples"][0]["run_delay_s"] >= 0
    if host["gpu"]:
        text = gzip.decompress((tmp_path / "gpu.csv.gz").read_bytes()).decode()
        assert next(csv.reader(text.splitlines())) == list(GPU_COLUMNS)
    else:
        assert host["gpu_reason"]
    assert {p.name for p in tmp_path.iterdir()} <= {"metrics.jsonl.gz", "gpu.csv.gz", "host.json"}


def test_a_page_that_stops_answering_is_recorded_and_not_fatal(url, tmp_path):
    with Watch(WatchConfig(metrics_urls=[url + "/broken"], gpu=False, interval_s=0.05), tmp_path):
        time.sleep(0.5)
    rows = _rows(tmp_path)
    assert "text" in rows[0] and "500" in str(rows[-1]["error"])


def test_nothing_granted_is_nothing_touched(tmp_path):
    with Watch(WatchConfig(gpu=False, interval_s=0.05), tmp_path):
        pass
    host = json.loads((tmp_path / "host.json").read_text())
    assert host["gpu_reason"] == "not granted"
    assert host["samples"][0]["pid_reason"] == "no process id was granted"
    assert not (tmp_path / "metrics.jsonl.gz").exists()


def test_what_was_seen_is_kept_when_the_body_fails(url, tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        Watch(WatchConfig(metrics_urls=[url], gpu=False, interval_s=0.05), tmp_path),
    ):
        raise ZeroDivisionError
    assert _rows(tmp_path)


def test_the_sampler_ends_with_the_process_that_started_it(tmp_path):
    code = (
        "import sys,time\nfrom pathlib import Path\n"
        "from teardown.observe.watch import Watch, WatchConfig\n"
        "with Watch(WatchConfig(gpu=False, interval_s=0.1), Path(sys.argv[1])) as watch:\n"
        "    print(watch._process.pid, flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 10
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_process_that_is_gone_is_a_reason_in_its_row():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    row = HostReader(child.pid).row(1.0)
    assert row["pid_reason"] == f"process {child.pid} is gone"
    assert row["load_1min"] is not None
