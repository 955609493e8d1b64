"""How a load process ends: complete, stopped, killed, out of disk, or never begun."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teardown.errors import TargetError, UsageError
from teardown.load.config import LoadConfig, Progress, StopIf
from teardown.load.journal import missing
from teardown.load.run import run_load
from teardown.records import read, to_json
from teardown.records.schedule import Schedule
from tests.fakes.engine import (
    HANG,
    STREAM_HEAD,
    FakeEngine,
    Script,
    chat_stream,
    refusal,
)
from tests.fakes.loads import (
    closed_schedule,
    journal_of,
    load_config,
)

ANSWER = chat_stream(["a", "b", "c"], first_ms=10, gap_ms=5)
WAITING: Script = [(0.0, STREAM_HEAD), (1.0, HANG)]


def quiet(progress: Progress) -> None:
    """Progress that nobody reads."""


def start(config: LoadConfig) -> "subprocess.Popen[bytes]":
    """The load process without its parent's care."""
    path = Path(config.result_path).with_name("config.json")
    path.write_text(to_json(config))
    command = [sys.executable, "-m", "teardown.load.process", str(path)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_a_run_stops_by_itself_when_too_much_fails(tmp_path: Path) -> None:
    with FakeEngine(refusal(503, at_ms=5)) as fake:
        rule = StopIf(error_ratio=0.5, after=5)
        config = load_config(tmp_path, fake.url, closed_schedule(500, 1), stop_if=rule)
        result = run_load(config, quiet)
        assert fake.num_requests < 20
    assert result.ended == "interrupted"
    assert result.stopped_because == "5 of 5 requests failed, more than the 0.5 allowed"


def test_a_resumed_run_sends_the_rest_and_goes_on_in_time(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        plan = closed_schedule(6, 1)
        config = load_config(tmp_path, fake.url, plan, skip=["r4", "r5"])
        run_load(config, quiet)
        journal = journal_of(config)
        assert missing(plan, journal) == ["r4", "r5"]
        base_s = journal.attempts[-1].last_s
        assert base_s > 0.05
        again = replace(config, skip=journal.finished, attempt=2, time_base_s=base_s)
        result = run_load(again, quiet)
        assert (fake.num_requests, result.total) == (6, 2)
    journal = journal_of(config)
    assert [r.attempt for r in journal.requests] == [1, 1, 1, 1, 2, 2]
    assert [r.request_id for r in journal.requests] == [f"r{n}" for n in range(6)]
    assert (journal.requests[4].sent_s or 0) >= base_s
    assert len(journal.attempts) == 2


def test_sigterm_aborts_what_is_in_flight_and_closes_the_journal(tmp_path: Path) -> None:
    with FakeEngine(lambda seen: ANSWER if seen.index < 3 else WAITING) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(20, 2))
        with start(config) as process:
            fake.wait_for_requests(5)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        assert process.returncode == 130
    journal = journal_of(config)
    assert sorted(request.status for request in journal.requests) == ["aborted"] * 2 + ["ok"] * 3
    assert journal.attempts[0].closed is not None
    assert journal.attempts[0].closed["ended"] == "interrupted"


def wait_until(holds: Callable[[], bool], timeout_s: float = 15.0) -> None:
    limit_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < limit_s, "waited too long"
        time.sleep(0.02)


def test_kill_9_keeps_the_journal_readable(tmp_path: Path) -> None:
    with FakeEngine(lambda seen: ANSWER if seen.index < 3 else WAITING) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(20, 2))
        journal_path = Path(config.journal_path)
        with start(config) as process:
            fake.wait_for_requests(5)
            wait_until(lambda: journal_path.read_bytes().count(b'"start"') == 5)
            process.kill()
            process.communicate(timeout=20)
    journal = journal_of(config)
    assert sorted(request.status for request in journal.requests) == ["aborted"] * 2 + ["ok"] * 3
    assert journal.attempts[0].closed is None
    assert len(missing(read(Schedule, Path(config.schedule_path)), journal)) == 15


def test_the_load_process_dies_with_its_parent(tmp_path: Path) -> None:
    with FakeEngine(WAITING) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(2, 2))
        program = (
            "import msgspec, sys\n"
            "from teardown.load.config import LoadConfig\n"
            "from teardown.load.run import run_load\n"
            "config = msgspec.json.decode(sys.argv[1], type=LoadConfig)\n"
            "run_load(config, lambda progress: None)\n"
        )
        text = msgspec.json.encode(config).decode()
        parent = subprocess.Popen([sys.executable, "-c", program, text])
        fake.wait_for_requests(2)
        parent.kill()
        parent.wait()
        wait_until(lambda: fake.in_flight == 0)  # the kernel closed the dead process's sockets


def test_ctrl_c_is_passed_on_and_what_was_measured_is_saved(tmp_path: Path) -> None:
    """In a kit of its own: Ctrl-C must not depend on what else this test process has loaded."""
    code = (
        "import sys, pathlib, signal\n"
        # a shell that starts jobs in the background has them ignore Ctrl-C
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from teardown.errors import Interrupted\n"
        "from teardown.load.config import LoadConfig\n"
        "from teardown.load.run import run_load\n"
        "from teardown.records import read\n"
        "config = read(LoadConfig, pathlib.Path(sys.argv[1]))\n"
        "try: run_load(config, lambda progress: None)\n"
        "except Interrupted as error: print(error)\n"
    )
    with FakeEngine(lambda seen: ANSWER if seen.index < 3 else WAITING) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(20, 2))
        path = tmp_path / "kit.json"
        path.write_text(to_json(config))
        command = [sys.executable, "-c", code, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as kit:
            fake.wait_for_requests(5)
            kit.send_signal(signal.SIGINT)
            said, _ = kit.communicate(timeout=60)
    assert "what was measured is in" in said
    assert journal_of(config).attempts[0].closed is not None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_stops_the_run_and_says_so(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        plan = closed_schedule(2000, 1)
        config = load_config(tmp_path, fake.url, plan, journal_path="/dev/full")
        with pytest.raises(TargetError, match="No space left on device; sending stopped"):
            run_load(config, quiet)
        assert fake.num_requests < 500


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"url": "ftp://h/v1"}, UsageError, "not an http or https address"),
        ({"prompts_path": "/nowhere"}, UsageError, "/nowhere cannot be read"),
        ({"schedule_path": "/nowhere"}, UsageError, "does not exist"),
        ({"api_key_env": "NO_SUCH_KEY"}, UsageError, "NO_SUCH_KEY has no API key"),
        ({"journal_path": "/nowhere/journal"}, TargetError, "cannot be written"),
    ],
)
def test_a_wrong_configuration_is_one_clear_sentence(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], says: str
) -> None:
    config = load_config(tmp_path, "http://127.0.0.1:9/v1", closed_schedule(1, 1))
    with pytest.raises(error, match=says) as caught:
        run_load(replace(config, **change), quiet)
    assert len(str(caught.value).splitlines()) == 1


def test_an_endpoint_that_is_not_there_refuses_every_request(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        url = fake.url
    config = load_config(tmp_path, url, closed_schedule(4, 2))
    result = run_load(config, quiet)
    assert result.counts == {"refused": 4}


def test_importing_the_public_modules_does_not_import_locust() -> None:
    program = (
        "import sys, teardown.load.run, teardown.load.journal, teardown.load.table\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('locust', 'gevent')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"ramp_s": -1}, "ramp_s"),
        ({"max_in_flight": 0}, "at least"),
    ],
)
def test_a_configuration_that_nothing_can_be_sent_with_is_refused(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        load_config(tmp_path, "http://127.0.0.1:9/v1", closed_schedule(1, 1), **change)
