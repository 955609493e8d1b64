"""Starting, ending and finding processes; no engine needed."""

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from teardown.engines import Launch, engine_by_name
from teardown.errors import EngineFailed, TargetError, TeardownError
from teardown.targets import LocalTarget, ports, process, state

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(60)"]


def started(tmp_path: Path, argv: list[str]) -> process.ServerProcess:
    one = process.ServerProcess(argv, {}, tmp_path, tmp_path / "log")
    one.wait_healthy(lambda: "up" in one.log() or "ready" in one.log(), lambda _: None, 20)
    return one


def test_children_of_a_server_end_with_it(tmp_path: Path) -> None:
    script = "sleep 60 & echo $!; setsid sleep 60 & echo $!; echo ready; wait"
    one = started(tmp_path, ["sh", "-c", script])
    children = [int(line) for line in one.log().split()[:2]]
    assert all(process.start_ticks(child) for child in children)
    os.kill(one.pid, 9)
    one.stop(0, lambda: True)
    assert one.exit_code() == 128 + 9
    assert [process.start_ticks(child) for child in children] == [None, None]


def test_a_server_that_ignores_sigterm_is_killed_by_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.2)
    one = started(tmp_path, ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
    one.stop(0, lambda: True)
    assert one.exit_code() == 128 + 9


def test_a_stop_waits_for_idle_and_no_longer_than_the_drain(tmp_path: Path) -> None:
    one = started(tmp_path, SLEEP)
    looks: list[bool] = [False, False, True]
    one.stop(60, lambda: looks.pop(0))
    assert looks == [] and one.exit_code() == 128 + 15
    one = started(tmp_path, SLEEP)
    one.stop(0.1, lambda: False)
    assert one.exit_code() == 128 + 15


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    one = process.ServerProcess(["/no/such/engine"], {}, tmp_path, tmp_path / "log")
    with pytest.raises(EngineFailed, match="/no/such/engine cannot be started: No such file"):
        one.wait_healthy(lambda: False, lambda _: None, 20)


def test_a_server_that_is_never_ready_is_said_with_its_last_line(tmp_path: Path) -> None:
    one = started(tmp_path, SLEEP)
    with pytest.raises(EngineFailed, match="not ready after 0 s: its log ends with 'up'"):
        one.wait_healthy(lambda: False, lambda _: None, 0)
    one.kill()


def test_a_server_is_started_from_the_main_thread_alone(tmp_path: Path) -> None:
    caught: list[TeardownError] = []

    def start() -> None:
        try:
            process.ServerProcess(SLEEP, {}, tmp_path, tmp_path / "log")
        except TeardownError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


@pytest.fixture
def target(tmp_path: Path) -> LocalTarget:
    launch = Launch(launcher="vllm", model="m", served_model="m", options={"max-num-seqs": 8})
    return LocalTarget(engine_by_name("vllm"), launch, tmp_path)


def left_behind(target: LocalTarget, **named: int | None) -> state.TargetState:
    """Write the state of a kit that is gone, and return it."""
    left = state.TargetState(
        original={"max-num-seqs": 8},
        present={"max-num-seqs": 64},
        url=target.url,
        port=target.port,
        kit_pid=os.getpid(),
        kit_start_ticks=1,  # some process before this one
        **named,
    )
    state.save(target.folder / "state.json", left)
    return left


def test_recover_ends_a_survivor_that_is_ours(target: LocalTarget) -> None:
    with subprocess.Popen(SLEEP, start_new_session=True, stdout=subprocess.PIPE) as survivor:
        assert survivor.stdout and survivor.stdout.readline() == b"up\n"
        left_behind(target, pid=survivor.pid, start_ticks=process.start_ticks(survivor.pid))
        assert target.recover() == [
            f"ended the engine that an earlier run left (process {survivor.pid})",
            "put the original options back: max-num-seqs 64 -> 8",
        ]
        assert survivor.wait(20) == -9
    assert target.recover() == []


def test_recover_leaves_a_process_that_only_has_the_same_number(target: LocalTarget) -> None:
    with subprocess.Popen(SLEEP, start_new_session=True, stdout=subprocess.PIPE) as other:
        ticks = process.start_ticks(other.pid)
        assert ticks is not None
        left_behind(target, pid=other.pid, start_ticks=ticks - 1)
        assert target.recover() == ["put the original options back: max-num-seqs 64 -> 8"]
        assert other.poll() is None
        other.kill()


def test_recover_refuses_while_another_kit_uses_the_stack(target: LocalTarget) -> None:
    left = left_behind(target)
    parent = os.getppid()
    state.save(
        target.folder / "state.json",
        replace(left, kit_pid=parent, kit_start_ticks=process.start_ticks(parent)),
    )
    with pytest.raises(TargetError, match=f"another teardown \\(process {parent}\\)"):
        target.recover()


def test_a_state_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state.load(path) is None
    for text in ("{", "[]", "{}", '{"schema": "other/1"}', '{"schema": "teardown.target_state/1"}'):
        path.write_text(text)
        assert state.load(path) is None


def test_a_free_port_is_free(tmp_path: Path) -> None:
    ports.check_free("127.0.0.1", ports.free_port("127.0.0.1"))
