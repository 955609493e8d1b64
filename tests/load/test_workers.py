"""Several load processes send one schedule: on this host, and joined as other hosts join."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teardown.errors import TargetError, UsageError
from teardown.load.config import LoadConfig, Progress, StopIf
from teardown.load.journal import missing, read_journal
from teardown.load.run import run_load
from teardown.records import Schedule, read, to_json
from tests.fakes.engine import HANG, STREAM_HEAD, FakeEngine, Script, chat_stream, refusal
from tests.fakes.link import SlowLink
from tests.fakes.loads import (
    closed_schedule,
    item,
    journal_of,
    load_config,
    open_schedule,
    schedule,
)
from tests.fakes.processes import (
    free_port,
    is_running,
    kill,
    load_workers,
    meanwhile,
    wait_until,
)

ANSWER = chat_stream(["a", "b", "c"], first_ms=10, gap_ms=5)
SLOW = chat_stream(["a", "b", "c"], first_ms=100, gap_ms=50)
WAITING: Script = [(0.0, STREAM_HEAD), (1.0, HANG)]

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


def quiet(progress: Progress) -> None:
    """Progress that nobody reads."""


@contextmanager
def running(module: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """A process of ours that never outlives its block."""
    command = [sys.executable, "-m", module, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def start_master(config: LoadConfig) -> "Iterator[subprocess.Popen[str]]":
    """The master without its parent's care."""
    path = Path(config.result_path).with_name("config.json")
    path.write_text(to_json(config))
    with running("teardown.load.master", str(path)) as process:
        yield process


@contextmanager
def start_worker(port: int, *more: str) -> "Iterator[subprocess.Popen[str]]":
    """A worker as somebody starts it on another host."""
    join = f"127.0.0.1:{port}"
    with running("teardown.cli", "worker", "--join", join, *more) as process:
        yield process


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_case_43_two_workers_never_exceed_the_asked_concurrency_and_lose_nothing(
    tmp_path: Path,
) -> None:
    seen: list[Progress] = []
    with FakeEngine(ANSWER) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(60, 5, lanes=8), workers=2)
        result = run_load(config, seen.append)
        assert fake.num_requests == 60
        assert fake.peak_in_flight == result.peak_in_flight == 5
        assert fake.num_connections == result.connections == 5
    journal = journal_of(config)
    assert (result.ended, result.counts, result.total) == ("complete", {"ok": 60}, 60)
    assert Counter(r.request_id for r in journal.requests) == Counter(f"r{n}" for n in range(60))
    assert journal.is_complete
    assert len(journal.attempts) == 1
    by_worker = Counter(request.worker for request in journal.requests)
    assert {part.worker: part.total for part in result.workers} == by_worker
    assert set(by_worker) == {"1", "2"}
    assert min(by_worker.values()) > 20
    assert [part.counts for part in result.workers] == [{"ok": n} for n in by_worker.values()]
    assert all(part.lost is None and part.cpu_s for part in result.workers)
    assert (seen[-1].done, seen[-1].total, seen[-1].in_flight) == (60, 60, 0)
    assert result.receive_lag is not None
    assert result.events == 60 * 7


def test_workers_of_one_host_share_one_timeline(tmp_path: Path) -> None:
    """Stamps of both are the times at which the server wrote, in the one journal."""
    with FakeEngine(chat_stream(["a"] * 10, first_ms=20, gap_ms=10)) as fake:
        plan = schedule([item(n, lane=n % 4, max_tokens=100 + n) for n in range(40)], concurrency=4)
        config = load_config(tmp_path, fake.url, plan, workers=2)
        result = run_load(config, quiet)
        written_s = {f"r{s.seen.json['max_tokens'] - 100}": s.written_s for s in fake.served}
    journal = journal_of(config)
    zero_s = journal.attempts[0].opened["monotonic_zero"]
    for part in result.workers:
        assert abs(part.clock_offset_s) <= part.clock_error_s < 0.02
        errors = []
        for request in journal.requests:
            if request.worker == part.worker:
                truth = written_s[request.request_id][2:12]  # after the head and the role
                errors += [zero_s + at - t for at, t in zip(request.chunk_s, truth, strict=True)]
        errors.sort()
        assert errors[len(errors) // 2] == pytest.approx(0.0, abs=part.clock_error_s + 0.001)


def test_an_open_loop_keeps_its_times_and_its_cap_over_two_workers(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        config = load_config(tmp_path, fake.url, open_schedule(60, 60.0), workers=2)
        run_load(config, quiet)
    requests = {r.request_id: r for r in journal_of(config).requests}
    assert len(requests) == 60
    for number in range(60):
        assert requests[f"r{number}"].intended_s == pytest.approx(number / 60)
    waits = sorted(r.client_wait_s or 0.0 for r in requests.values())
    assert waits[0] >= 0
    assert waits[30] < 0.02
    with FakeEngine(SLOW) as fake:
        capped = load_config(
            tmp_path,
            fake.url,
            open_schedule(12, 100.0),
            workers=2,
            max_in_flight=3,
            journal_path=str(tmp_path / "capped.wal.jsonl"),
        )
        run_load(capped, quiet)
        assert fake.num_requests == 12
        assert fake.peak_in_flight == 3


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_turns_of_a_session_stay_with_one_worker_in_their_order(tmp_path: Path, kind: str) -> None:
    turns = [
        item(n, session=f"s{n % 4}", turn=n // 4, lane=n % 4, intended_s=0.02 * n)
        for n in range(12)
    ]
    with FakeEngine(ANSWER) as fake:
        plan = schedule(turns, kind=kind, concurrency=4)
        config = load_config(tmp_path, fake.url, plan, workers=2)
        run_load(config, quiet)
    requests = journal_of(config).requests
    for session in ("s0", "s1", "s2", "s3"):
        own = [request for request in requests if request.session == session]
        assert [request.turn for request in own] == [0, 1, 2]
        assert len({request.worker for request in own}) == 1
        for before, after in itertools.pairwise(own):
            assert before.sent_s is not None and after.sent_s is not None
            assert after.sent_s >= before.sent_s + (before.stream_close_s or 0)
    assert {request.worker for request in requests} == {"1", "2"}


def test_more_workers_than_lanes_have_nothing_to_do(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(6, 2), workers=3)
        result = run_load(config, quiet)
    assert (result.ended, result.counts) == ("complete", {"ok": 6})
    assert [part.total for part in result.workers] == [3, 3, 0]


def test_kill_9_of_a_worker_costs_its_own_unfinished_requests_alone(tmp_path: Path) -> None:
    with FakeEngine(SLOW) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(80, 4), workers=2)

        def kill_one() -> None:
            fake.wait_for_requests(24)
            kill(load_workers(os.getpid())[0])

        with meanwhile(kill_one):
            result = run_load(config, quiet)
        assert fake.peak_in_flight <= 4
    journal = journal_of(config)
    lost, other = sorted(result.workers, key=lambda part: part.lost is None)
    assert lost.lost == "its process ended with code -9"
    assert (other.lost, other.counts) == (None, {"ok": 40})
    assert lost.counts["ok"] >= 4
    mine = Counter(r.status for r in journal.requests if r.worker == lost.worker)
    assert mine["ok"] == lost.counts["ok"]
    assert mine["aborted"] <= 2
    unsent = missing(read(Schedule, Path(config.schedule_path)), journal)
    assert len(unsent) == 40 - mine.total()
    assert unsent
    assert result.ended == "interrupted"
    assert result.notes == [
        f"worker {lost.worker} on {socket.gethostname()} did not finish its 40 requests: "
        "its process ended with code -9"
    ]
    assert not journal.is_complete
    closed = journal.attempts[0].closed
    assert closed is not None
    assert closed["notes"] == result.notes


def test_a_run_that_lost_a_worker_is_resumed_with_what_is_left(tmp_path: Path) -> None:
    with FakeEngine(SLOW) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(40, 4), workers=2)

        def kill_one() -> None:
            fake.wait_for_requests(12)
            kill(load_workers(os.getpid())[0])

        with meanwhile(kill_one):
            run_load(config, quiet)
        journal = journal_of(config)
        rest = replace(
            config,
            skip=journal.finished,
            attempt=2,
            time_base_s=journal.attempts[-1].last_s,
        )
        result = run_load(rest, quiet)
    whole = journal_of(config)
    assert (result.ended, result.total) == ("complete", 40 - len(journal.finished))
    assert whole.is_complete
    assert sorted(r.request_id for r in whole.requests) == sorted(f"r{n}" for n in range(40))
    assert all(request.status == "ok" for request in whole.requests)
    later = [r for r in whole.requests if r.attempt == 2]
    assert len(later) == result.total
    assert min(r.sent_s or 0 for r in later) >= rest.time_base_s


def test_no_worker_outlives_a_master_that_was_killed(tmp_path: Path) -> None:
    with FakeEngine(WAITING) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(4, 4), workers=2)
        with start_master(config) as master:
            fake.wait_for_requests(4)
            workers = load_workers(master.pid)
            assert len(workers) == 2
            wait_until(lambda: Path(config.journal_path).read_bytes().count(b'"start"') == 4)
            master.kill()
            master.communicate(timeout=20)
            wait_until(lambda: not any(is_running(pid) for pid in workers), 2)
        wait_until(lambda: fake.in_flight == 0)
    journal = journal_of(config)
    assert [request.status for request in journal.requests] == ["aborted"] * 4
    assert journal.attempts[0].closed is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_all_workers_within_a_second(
    tmp_path: Path, number: signal.Signals
) -> None:
    with FakeEngine(lambda seen: ANSWER if seen.index < 6 else WAITING) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(20, 4), workers=2)
        with start_master(config) as master:
            fake.wait_for_requests(10)
            workers = load_workers(master.pid)
            began_s = time.monotonic()
            master.send_signal(number)
            wait_until(lambda: fake.in_flight == 0)
            assert time.monotonic() - began_s < 1.0
            master.communicate(timeout=20)
            assert master.returncode == 130
            assert not any(is_running(pid) for pid in workers)
    journal = journal_of(config)
    statuses = Counter(request.status for request in journal.requests)
    assert statuses == {"ok": 6, "aborted": 4}
    closed = journal.attempts[0].closed
    assert closed is not None
    assert (closed["stopped_because"], closed["notes"]) == ("stopped by the user", [])


def test_a_signal_while_workers_are_awaited_ends_the_wait(tmp_path: Path) -> None:
    port = free_port()
    config = load_config(
        tmp_path,
        "http://127.0.0.1:9/v1",
        closed_schedule(2, 2),
        workers=2,
        listen=f"127.0.0.1:{port}",
    )
    with start_worker(port) as worker, start_master(config) as master:
        wait_until(lambda: is_listening(port))
        master.send_signal(signal.SIGTERM)
        master.communicate(timeout=20)
        assert master.returncode == 130
        worker.terminate()
        worker.communicate(timeout=20)
    assert read_journal(Path(config.journal_path)).attempts == []


def test_failures_of_all_workers_together_stop_all_of_them(tmp_path: Path) -> None:
    with FakeEngine(refusal(503, at_ms=20)) as fake:
        rule = StopIf(error_ratio=0.5, after=10)
        config = load_config(tmp_path, fake.url, closed_schedule(2000, 2), stop_if=rule, workers=2)
        result = run_load(config, quiet)
        assert fake.num_requests < 150  # 100 a second, stopped within a second
    assert result.ended == "interrupted"
    assert "requests failed, more than the 0.5 allowed" in (result.stopped_because or "")
    assert result.notes == []


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"url": "ftp://h/v1"}, UsageError, "not an http or https address"),
        ({"prompts_path": "/nowhere"}, UsageError, "/nowhere cannot be read"),
        ({"schedule_path": "/nowhere"}, UsageError, "does not exist"),
        ({"api_key_env": "NO_SUCH_KEY"}, UsageError, "NO_SUCH_KEY has no API key"),
        ({"journal_path": "/nowhere/journal"}, TargetError, "cannot be written"),
        ({"listen": "h:x"}, UsageError, "is not HOST or HOST:PORT"),
        ({"listen": "0.0.0.0:0"}, UsageError, "is not HOST or HOST:PORT"),
        ({"listen": "0.0.0.0:5999"}, UsageError, "an address of this host alone"),
        ({"listen": "192.0.2.1:5999", "url": "http://10.0.0.1/v1"}, TargetError, "not of this"),
    ],
)
def test_what_keeps_workers_from_sending_is_one_clear_sentence(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], says: str
) -> None:
    config = load_config(tmp_path, "http://127.0.0.1:9/v1", closed_schedule(2, 2), workers=2)
    with pytest.raises(error, match=says) as caught:
        run_load(replace(config, **change), quiet)
    assert len(str(caught.value).splitlines()) == 1
    assert load_workers(os.getpid()) == []


def test_a_port_that_is_taken_is_one_clear_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        config = load_config(
            tmp_path, "http://127.0.0.1:9/v1", closed_schedule(2, 2), workers=2, listen=place
        )
        with pytest.raises(TargetError, match="its port is taken"):
            run_load(config, quiet)


def test_a_full_disk_stops_every_worker_and_says_so(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        config = load_config(
            tmp_path, fake.url, closed_schedule(2000, 2), journal_path="/dev/full", workers=2
        )
        with pytest.raises(TargetError, match="No space left on device; sending stopped"):
            run_load(config, quiet)
        assert fake.num_requests < 500


def test_workers_that_join_do_two_runs_and_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from other hosts: no engagement folder, a key of their own, prompts by message."""
    port, own = free_port(), tmp_path / "own"
    seen: list[Progress] = []
    with FakeEngine(ANSWER) as fake, ExitStack() as stack:
        monkeypatch.setenv("FAKE_KEY", "sk-of-the-worker")
        one = stack.enter_context(start_worker(port, "--json"))
        two = stack.enter_context(start_worker(port, "--folder", str(own)))
        monkeypatch.delenv("FAKE_KEY")  # the master has none
        for more_runs in (True, False):
            config = load_config(
                tmp_path,
                fake.url,
                closed_schedule(20, 3),
                workers=2,
                listen=f"127.0.0.1:{port}",
                more_runs=more_runs,
                api_key_env="FAKE_KEY",
                journal_path=str(tmp_path / f"{more_runs}.wal.jsonl"),
            )
            result = run_load(config, seen.append)
            assert (result.ended, result.counts) == ("complete", {"ok": 20})
            assert fake.peak_in_flight == 3
            assert len(journal_of(config).requests) == 20
        keys = {served.seen.headers["authorization"] for served in fake.served}
        said = [worker.communicate(timeout=20)[0] for worker in (one, two)]
        assert (one.returncode, two.returncode) == (0, 0)
    assert keys == {"Bearer sk-of-the-worker"}
    assert json.loads(said[0]) == {"schema": "teardown.worker/1", "runs": 2}
    assert "took part in 2 run(s)" in said[1]
    texts = [progress.says for progress in seen if progress.says]
    assert f"waiting for 2 workers to join at 127.0.0.1:{port}" in texts
    assert any("has joined (2 of 2)" in text for text in texts)
    assert list(own.iterdir()) == []  # nothing of the client's stays there
    for path in tmp_path.iterdir():
        assert path.is_dir() or b"sk-of-the-worker" not in path.read_bytes()


def test_a_missing_key_on_one_host_names_the_host_and_sends_nothing(tmp_path: Path) -> None:
    port = free_port()
    with FakeEngine(ANSWER) as fake, start_worker(port) as worker:
        config = load_config(
            tmp_path,
            fake.url,
            closed_schedule(2, 1),
            listen=f"127.0.0.1:{port}",
            api_key_env="NO_SUCH_KEY",
        )
        says = f"worker 1 on {socket.gethostname()}: .*NO_SUCH_KEY has no API key"
        with pytest.raises(UsageError, match=says):
            run_load(config, quiet)
        _, error = worker.communicate(timeout=20)
        assert worker.returncode == 2
        assert error.splitlines()[-1].endswith("NO_SUCH_KEY has no API key")
        assert fake.num_requests == 0


def test_joined_workers_stop_by_themselves_when_their_master_is_gone(tmp_path: Path) -> None:
    """And keep what it did not get."""
    port = free_port()
    with FakeEngine(WAITING) as fake, start_worker(port, "--folder", str(tmp_path / "own")) as one:
        config = load_config(tmp_path, fake.url, closed_schedule(2, 2), listen=f"127.0.0.1:{port}")
        with start_master(config) as master:
            fake.wait_for_requests(2)
            master.kill()
            master.communicate(timeout=20)
        assert wait_until(lambda: fake.in_flight == 0) < 6
        _, error = one.communicate(timeout=20)
    assert one.returncode == 3
    assert "the master is gone" in error
    assert "not all records reached the master" in error
    (kept,) = (tmp_path / "own").iterdir()
    assert [r.status for r in read_journal(kept).requests] == ["aborted"] * 2


def test_a_worker_that_is_stopped_on_its_host_leaves_the_others_at_work(tmp_path: Path) -> None:
    port = free_port()
    with FakeEngine(SLOW) as fake, start_worker(port) as one, start_worker(port) as two:
        config = load_config(
            tmp_path, fake.url, closed_schedule(40, 4), workers=2, listen=f"127.0.0.1:{port}"
        )

        def stop_one() -> None:
            fake.wait_for_requests(12)
            one.send_signal(signal.SIGTERM)

        with meanwhile(stop_one):
            result = run_load(config, quiet)
        for worker in (one, two):
            worker.communicate(timeout=20)
        assert (one.returncode, two.returncode) == (130, 0)
    (note,) = result.notes
    assert note.endswith("did not finish its 20 requests: stopped by a signal on its host")
    assert result.counts["ok"] >= 20
    assert result.counts["aborted"] == 2  # told by the worker itself


def test_one_worker_too_many_is_sent_away(tmp_path: Path) -> None:
    port = free_port()
    with FakeEngine(WAITING) as fake:
        config = load_config(
            tmp_path, fake.url, closed_schedule(2, 2), workers=2, listen=f"127.0.0.1:{port}"
        )
        with start_master(config) as master, start_worker(port) as one, start_worker(port) as two:
            fake.wait_for_requests(2, 30.0)
            with start_worker(port) as third:
                _, error = third.communicate(timeout=20)
            assert third.returncode == 3
            assert "the run has its 2 workers already" in error
            master.terminate()
            for process in (master, one, two):
                process.communicate(timeout=20)
            assert (master.returncode, one.returncode, two.returncode) == (130, 0, 0)


def test_a_worker_without_a_master_says_so_in_time() -> None:
    with start_worker(free_port(), "--wait", "1") as worker:
        _, error = worker.communicate(timeout=20)
    assert worker.returncode == 3
    assert "nobody answers at 127.0.0.1" in error
    assert "Traceback" not in error


def test_records_survive_a_link_that_breaks_for_a_moment(tmp_path: Path) -> None:
    """What was on its way is sent again; what came twice counts once."""
    port = free_port()
    with FakeEngine(ANSWER) as fake:
        config = load_config(
            tmp_path, fake.url, closed_schedule(300, 3), listen=f"127.0.0.1:{port}"
        )
        near = free_port()
        link = SlowLink(("127.0.0.1", near), ("127.0.0.1", port), delay_s=0.3)
        with start_worker(near) as worker:

            def cut_and_mend() -> None:
                with link:
                    fake.wait_for_requests(60)
                with SlowLink(("127.0.0.1", near), ("127.0.0.1", port), delay_s=0.0):
                    fake.wait_for_requests(300)
                    worker.wait(30)

            with meanwhile(cut_and_mend):
                result = run_load(config, quiet)
            worker.communicate(timeout=20)
    assert (result.ended, result.counts) == ("complete", {"ok": 300})
    ids = Counter(request.request_id for request in journal_of(config).requests)
    assert ids == Counter(f"r{n}" for n in range(300))
    lines = Path(config.journal_path).read_bytes().splitlines()
    assert Counter(json.loads(line)["event"] for line in lines) == {
        "open": 1,
        "start": 300,
        "end": 300,
        "close": 1,
    }


def test_measure_takes_workers_and_tells_what_was_lost(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"Say {n}."}) + "\n" for n in range(40)))
    with FakeEngine(SLOW) as fake:
        command = [sys.executable, "-m", "teardown.cli", "measure", str(tmp_path / "e"), "--json"]
        command += ["--url", fake.url, "--prompts", str(prompts), "--requests", "40"]
        command += ["--concurrency", "4", "--workers", "2", "--regime", "production"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as kit:
            fake.wait_for_requests(12)
            kill(load_workers(kit.pid)[0])
            text, _ = kit.communicate(timeout=60)
        assert fake.peak_in_flight <= 4
    assert kit.returncode == 4  # too much was lost for numbers to stand
    validity = json.loads(text.splitlines()[0])["validity"]
    reasons = {reason["code"]: reason for reason in validity["reasons"]}
    assert reasons["errors"]["level"] == "invalid"
    (run,) = (tmp_path / "e" / "runs").glob("*/run.json")
    notes = json.loads(run.read_text())["notes"]
    assert any("its process ended with code -9" in note for note in notes)
