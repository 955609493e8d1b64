"""The client's own error is measured, and is no constant: a late client is found late."""

import contextlib
import functools
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import teardown.load.calibrate as calibrate_module
import teardown.load.expected as expected_module
import teardown.measure as measure_module
from teardown.engagement import Engagement
from teardown.errors import Interrupted, RunInvalid, TargetError
from teardown.load.calibrate import CEILING_SHARE, available_cores, calibrate
from teardown.load.expected import CALIBRATION_FILE, calibration_for, expected_load
from teardown.load.null_server import NullServer
from teardown.load.run import run_load
from teardown.records import Calibration, Run, StreamShape, read, to_json
from teardown.verbs import measure
from tests.fakes.engine import FakeEngine, chat_stream
from tests.fakes.late_reads import late_python
from tests.fakes.loads import closed_schedule, item, open_schedule, schedule
from tests.fakes.records import SHAPE, calibration
from tests.load.test_certificate import request


@contextlib.contextmanager
def null_server(**shape: float) -> Iterator[NullServer]:
    reading, writing = os.pipe()
    server = NullServer(**shape)  # type: ignore[arg-type]
    with os.fdopen(reading, "rb") as end:
        server.keep_until_end_of(end)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            os.close(writing)
            thread.join(10)
            server.close()


def post(server: NullServer, document: dict[str, object]) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", "/v1/chat/completions", json.dumps(document))
    body = connection.getresponse().read()
    connection.close()
    return body


def test_the_null_server_replays_its_shape_and_keeps_the_truth_of_it() -> None:
    shape = {"first_s": 0.03, "gap_s": 0.01, "num_chunks": 5, "chunk_bytes": 400}
    with null_server(**shape) as server:
        body = post(server, {"stream": True, "max_tokens": 77})
    events = body.decode().split("\n\n")
    assert {len(event) + 2 + 7 for event in events[:5]} == {400}  # with the framing of HTTP
    texts = [text.removeprefix("data: ") for text in events]
    documents = [json.loads(text) for text in texts if text.startswith("{")]
    chunks = [d for d in documents if d["choices"]]
    (served,) = server.served
    assert served.key == 77
    assert [d["sent_ns"] / 1e9 for d in chunks] == served.sent_s
    assert [d["choices"][0]["finish_reason"] for d in chunks] == [None] * 4 + ["length"]
    assert documents[-1]["usage"]["completion_tokens"] == 5
    due = [0.03, 0.04, 0.05, 0.06, 0.07]
    for at_s, due_s in zip(served.sent_s, due, strict=True):
        assert at_s - served.arrived_s >= due_s
    assert served.sent_s[-1] - served.arrived_s < 0.07 + 0.5


def test_the_null_server_outlives_clients_that_leave_or_talk_nonsense() -> None:
    shape = {"first_s": 0.0, "gap_s": 0.001, "num_chunks": 2, "chunk_bytes": 0}
    with null_server(**shape) as server:
        leaver = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        leaver.request("POST", "/v1/chat/completions", '{"stream": true}')
        leaver.close()
        assert b"chat.completion" in post(server, {"messages": []})
        nonsense = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        nonsense.request("POST", "/v1/chat/completions", b"\xff{")
        nonsense.getresponse().read()
        nonsense.close()
        assert b"[DONE]" in post(server, {"stream": True, "max_tokens": "many"})


def test_a_quiet_calibration_says_what_the_client_adds_and_carries() -> None:
    found = calibrate(SHAPE)
    assert found.num_requests >= 4 * SHAPE.streams
    assert found.stamp_error_s.n == found.num_requests * 20
    assert found.gap_error_s.n == found.num_requests * 19
    assert 0 < found.ttft_overstatement_s.p50 < 0.005
    assert abs(found.stamp_error_s.p50) < 0.005
    assert found.ceiling_events_per_s == pytest.approx(CEILING_SHARE / found.cpu_s_per_event)
    assert 500 < found.ceiling_events_per_s < 1e6
    assert found.elapsed_s == pytest.approx(3.0, abs=1.5)
    assert (found.expected, found.workers_needed) == (SHAPE, 1)
    if sys.platform.startswith("linux"):
        assert found.receive_lag_s is not None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no kernel stamps to compare with")
def test_20_ms_in_the_read_path_are_reported_as_20_ms(tmp_path: Path) -> None:
    found = calibrate(SHAPE, python=late_python(tmp_path, 0.020))
    assert found.receive_lag_s is not None
    assert found.receive_lag_s.p50 == pytest.approx(0.020, abs=0.002)
    assert abs(found.stamp_error_s.p50) < 0.005  # the kernel's stamps do not wait for the reader


def test_20_ms_in_the_read_path_are_20_ms_of_ttft_where_the_kernel_does_not_stamp(
    tmp_path: Path,
) -> None:
    found = calibrate(SHAPE, python=late_python(tmp_path, 0.020, with_stamps=False))
    assert found.receive_lag_s is None
    assert found.ttft_overstatement_s.p50 == pytest.approx(0.020, abs=0.002)
    assert found.stamp_error_s.p50 == pytest.approx(0.020, abs=0.002)


BUSY = """
import os, sys, time
from teardown.load.priority import run_promptly
os.sched_setaffinity(0, {int(sys.argv[1])})
run_promptly()
print("busy", flush=True)
end_s = time.monotonic() + 30
while time.monotonic() < end_s:
    pass
"""


@contextlib.contextmanager
def busy_loop(core: int) -> Iterator[None]:
    """Keep `core` busy at the load process's own priority, for half a minute at most."""
    command = [sys.executable, "-c", BUSY, str(core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


@pytest.mark.skipif(len(available_cores()) < 2, reason="one core is shared with the server already")
def test_the_figure_rises_when_the_clients_core_is_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = available_cores()[-2:]
    monkeypatch.setattr(calibrate_module, "available_cores", lambda: cores)
    quiet = calibrate(SHAPE)
    with busy_loop(cores[0]):
        shared = calibrate(SHAPE)
    assert quiet.server_core == shared.server_core == cores[1]
    assert quiet.receive_lag_s is not None and shared.receive_lag_s is not None
    assert shared.receive_lag_s.p99 > 2 * quiet.receive_lag_s.p99
    assert shared.ttft_overstatement_s.p99 > 2 * quiet.ttft_overstatement_s.p99


def measure_with(tmp_path: Path, url: str, *more: str) -> "tuple[object, BaseException | None]":
    """Run `teardown measure` of 16 requests by 2 users here; return its output and its error."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(f'{{"prompt": "hello {n}"}}\n' for n in range(16)))
    arguments = [str(tmp_path / "e"), "--url", url, "--prompts", str(prompts), *more]
    arguments += ["--requests", "16", "--concurrency", "2", "--regime", "production"]
    result = CliRunner().invoke(measure, arguments)
    return result.stdout, result.exception


ANSWER = chat_stream(["word "] * 12, first_ms=50, gap_ms=25)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no kernel stamps to judge by")
def test_a_client_that_is_20_ms_late_makes_its_run_invalid_and_shows_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = late_python(tmp_path, 0.020)
    monkeypatch.setattr(measure_module, "run_load", functools.partial(run_load, python=python))
    late_calibrate = functools.partial(calibrate, python=python)
    monkeypatch.setattr(expected_module, "calibrate", late_calibrate)
    with FakeEngine(ANSWER) as fake:
        output, error = measure_with(tmp_path, fake.url)
    assert isinstance(error, RunInvalid)
    assert error.exit_code == 4
    assert "client_limited" in str(error)
    assert isinstance(output, str)
    for word in ("TTFT", "TPOT", "output tokens/s", "plateau"):
        assert word not in output
    (run_id,) = Engagement(tmp_path / "e").run_ids()
    kept = read(Run, tmp_path / "e" / "runs" / run_id / "run.json")
    assert kept.summary is None
    assert kept.validity.error_bar is not None
    assert kept.validity.error_bar.ttft_s == pytest.approx(0.020, abs=0.006)


def test_a_run_is_calibrated_and_says_so_in_one_line(tmp_path: Path) -> None:
    with FakeEngine(ANSWER) as fake:
        output, error = measure_with(tmp_path, fake.url)
    assert error is None
    assert isinstance(output, str)
    (line,) = [line for line in output.splitlines() if "the client adds" in line]
    assert "ms to TTFT" in line
    (run_id,) = Engagement(tmp_path / "e").run_ids()
    folder = tmp_path / "e" / "runs" / run_id
    kept = read(Calibration, folder / CALIBRATION_FILE)
    assert kept.expected.streams == 2
    bar = read(Run, folder / "run.json").validity.error_bar
    assert bar is not None and bar.ttft_s is not None and bar.gap_s is not None
    assert bar.ttft_s >= kept.ttft_overstatement_s.p99
    assert bar.gap_s >= kept.gap_error_s.p99


def test_a_second_run_stands_on_the_calibration_of_the_first_and_on_its_streams(
    tmp_path: Path,
) -> None:
    with FakeEngine(chat_stream(["word "] * 6, first_ms=20, gap_ms=40)) as fake:
        _, error = measure_with(tmp_path, fake.url)
        assert error is None
        again = CliRunner().invoke(measure, [str(tmp_path / "e")])
        assert again.exception is None
    paths = sorted((tmp_path / "e" / "runs").glob(f"*/{CALIBRATION_FILE}"))
    first, second = (read(Calibration, path) for path in paths)
    assert second.measured_unix_s == first.measured_unix_s
    assert first.expected.chunks_per_s == 40.0  # nothing was known
    assert second.expected.chunks_per_s == pytest.approx(25.0, rel=0.1)


def test_a_load_beyond_the_ceiling_is_refused_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = calibration(ceiling_events_per_s=30.0)
    monkeypatch.setattr(expected_module, "calibrate", lambda shape: low)
    with FakeEngine(ANSWER) as fake:
        _, error = measure_with(tmp_path, fake.url)
        assert fake.num_requests == 0
    assert isinstance(error, TargetError)
    assert error.exit_code == 3
    assert "it needs --workers 3" in str(error)  # 2 streams of 40 a second
    assert "\n" not in str(error)
    assert Engagement(tmp_path / "e").run_ids() == []


@pytest.mark.parametrize(("workers", "is_refused"), [(1, True), (3, True), (4, False)])
def test_enough_workers_lift_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, is_refused: bool
) -> None:
    asked: list[StreamShape] = []

    def fake_calibrate(shape: StreamShape) -> Calibration:
        asked.append(shape)
        return calibration()  # carries 1000 events a second

    monkeypatch.setattr(expected_module, "calibrate", fake_calibrate)
    plan = closed_schedule(100, 100)  # 4000 events a second
    if is_refused:
        with pytest.raises(TargetError, match="--workers 4"):
            calibration_for(Engagement(tmp_path), plan, 100, workers)
    else:
        found = calibration_for(Engagement(tmp_path), plan, 100, workers)
        assert found is not None
        assert (found.expected.streams, found.workers_needed) == (100, 4)
    assert [shape.streams for shape in asked] == [-(-100 // workers)]


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({}, True),
        ({"boot_id": "another start of the host"}, False),
        ({"measured_unix_s": time.time() - 3600}, False),
        ({"shape": StreamShape(streams=2, chunks_per_s=40.0)}, False),
        ({"shape": StreamShape(streams=40, chunks_per_s=40.0)}, True),
        ({"shape": StreamShape(streams=400, chunks_per_s=40.0)}, False),
        ({"shape": StreamShape(streams=4, chunks_per_s=40.0, prompt_bytes=10)}, False),
    ],
    ids=["same", "boot", "old", "lighter", "heavier", "much heavier", "small prompts"],
)
def test_a_calibration_is_kept_for_loads_that_it_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], is_kept: bool
) -> None:
    folder = tmp_path / "runs" / "r0001-before-chats"
    folder.mkdir(parents=True)
    (folder / CALIBRATION_FILE).write_text(to_json(calibration(**changes)))
    fresh = calibration(cpu_s_per_event=0.0005)
    monkeypatch.setattr(expected_module, "calibrate", lambda shape: fresh)
    found = calibration_for(Engagement(tmp_path), closed_schedule(8, 4), 1000)
    assert found is not None
    assert (found.cpu_s_per_event == 0.0007) == is_kept


def test_a_calibration_that_fails_costs_the_error_bar_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(shape: StreamShape) -> Calibration:
        raise TargetError("no port is free")

    monkeypatch.setattr(expected_module, "calibrate", fail)
    assert calibration_for(Engagement(tmp_path), closed_schedule(8, 4), 1000) is None
    assert "no port is free" in caplog.text


def test_a_stop_during_calibration_does_not_speak_of_measurements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted("stopped; what was measured is in a folder that will be gone")

    monkeypatch.setattr(calibrate_module, "run_load", interrupted)
    with pytest.raises(Interrupted, match="nothing had been sent to the stack") as caught:
        calibrate(SHAPE)
    assert caught.value.exit_code == 130


def test_a_closed_loop_is_expected_to_answer_all_its_users_at_once() -> None:
    assert expected_load(closed_schedule(40, 8), 500).events_per_s == 8 * 40
    assert expected_load(closed_schedule(40, 8, lanes=3), 500).streams == 3


def test_an_open_loop_is_expected_to_have_its_arrivals_times_an_answers_length() -> None:
    plan = schedule(
        [item(n, intended_s=n / 10, max_tokens=200) for n in range(50)],
        kind="open",
        rate_per_s=10.0,
    )
    assert expected_load(plan, 500).streams == 50  # 10 a second, each 200 chunks at 40 a second
    assert expected_load(open_schedule(4, 1.0), 500).streams == 1


def test_the_newest_run_tells_how_dense_streams_are() -> None:
    earlier = [request(n, 0.0, chunk_s=[0.01 * i for i in range(101)]) for n in range(3)]
    earlier.append(request(9, 0.0, chunk_s=[1.0]))
    found = expected_load(closed_schedule(40, 8), 500, earlier)
    assert (found.streams, found.chunks_per_s) == (8, pytest.approx(100.0))
    busy = expected_load(open_schedule(10, 10.0), 500, earlier)
    assert busy.events_per_s == pytest.approx(1100, rel=0.1)


@pytest.mark.parametrize(
    ("streams", "per_s", "replayed_per_s"),
    [
        (8, 6.0, 10.0),
        (8, 10.0, 10.0),
        (8, 44.7, 160.0),
        (100, 45.0, 80.0),  # heavy: in smaller steps
        (400, 45.0, 45.0),  # very heavy: as it is
    ],
)
def test_light_loads_are_rounded_up_so_that_one_calibration_serves_many_runs(
    streams: int, per_s: float, replayed_per_s: float
) -> None:
    found = expected_module._rounded_up(StreamShape(streams=streams, chunks_per_s=per_s))
    assert (found.streams, found.chunks_per_s) == (streams, replayed_per_s)


def test_a_shape_beyond_the_null_server_is_replayed_with_fewer_streams() -> None:
    found = calibrate_module._at_most(StreamShape(streams=1000, chunks_per_s=40.0), 20_000)
    assert (found.streams, found.chunks_per_s) == (500, 40.0)
