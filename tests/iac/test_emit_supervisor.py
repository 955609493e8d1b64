"""supervisor/run.sh run for real: start, crash, give up, stop with nothing left."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.iac.engagements import (
    NASTY,
    eventually,
    free_port,
    get,
    is_open,
    launch_of,
    run_emit,
    sh,
    stack,
    write_engagement,
)

FAST = {"LLM_MAX_DELAY_S": "0", "LLM_STOP_TIMEOUT_S": "3", "LLM_START_TIMEOUT_S": "10"}


class Supervised:
    """An emitted stack that its own script runs, straight from `out/`."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.port = free_port()
        options = {"parallel": 4} | dict(changes.pop("options", {}))  # type: ignore[call-overload]
        tuned = stack(**options)
        launch = launch_of(tuned, **changes)
        write_engagement(folder, accepted=tuned, launch=launch, port=self.port)
        self.out = run_emit(folder)
        self.script = self.out / "supervisor/run.sh"

    def __call__(self, verb: str, **env: str) -> tuple[int, str]:
        return sh("sh", str(self.script), verb, env=dict(os.environ) | FAST | env)

    @property
    def log(self) -> str:
        return (self.out / "run/server.log").read_text()

    def pid(self) -> int:
        return int(get(self.port, "/pid"))


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    it = Supervised(tmp_path / "e")
    yield it
    it("stop")


def _processes(folder: Path) -> list[str]:
    """Return the command lines of all processes that name `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def test_it_starts_answers_and_stops_leaving_nothing(supervised: Supervised) -> None:
    assert supervised("status") == (3, "stopped\n")
    code, text = supervised("start")
    assert code == 0, text
    assert get(supervised.port, "/health") == "ok"
    assert get(supervised.port, "/options") == '{"parallel": 4}'
    code, text = supervised("status")
    assert code == 0
    assert text.startswith("running:")
    assert text.rstrip().endswith("answers")
    assert supervised("start")[1].startswith("already running")
    assert supervised("stop") == (0, "stopped\n")
    assert not is_open(supervised.port)
    assert _processes(supervised.out) == []
    assert supervised("stop") == (0, "not running\n")


@pytest.mark.parametrize("how", ["crash", "kill"])
def test_a_crash_is_followed_by_a_new_server(supervised: Supervised, how: str) -> None:
    supervised("start")
    first = supervised.pid()
    if how == "kill":
        os.kill(first, signal.SIGKILL)
    else:
        with pytest.raises(OSError, match=r"closed|reset"):
            get(supervised.port, "/crash")
    assert eventually(lambda: supervised.pid() != first)
    assert "crash 1 of 5" in supervised.log


def test_it_gives_up_after_the_limit_and_says_so(tmp_path: Path) -> None:
    it = Supervised(tmp_path / "e", argv=["{python}", "-c", "raise SystemExit(9)"])
    code, text = it("start", LLM_RESTART_LIMIT="3")
    assert code == 1
    assert "gave up: 3 crashes" in text
    assert "exit code 9" in text
    assert it("status")[0] == 1
    assert _processes(it.out) == []


def test_a_server_that_ignores_sigterm_is_killed_at_the_deadline(tmp_path: Path) -> None:
    it = Supervised(tmp_path / "e", options={"deaf": True})
    assert it("start")[0] == 0
    code, text = it("stop", LLM_STOP_TIMEOUT_S="1")
    assert code == 0
    assert "still running after 1 s: killed" in text
    assert eventually(lambda: not is_open(it.port) and _processes(it.out) == [])


def test_a_server_whose_supervisor_was_killed_can_still_be_stopped(supervised: Supervised) -> None:
    supervised("start")
    supervisor = int((supervised.out / "run/supervisor.pid").read_text().split()[0])
    os.kill(supervisor, signal.SIGKILL)
    assert eventually(lambda: supervised("status")[0] == 3)
    code, text = supervised("start")
    assert code == 1
    assert "already answers" in text
    assert supervised("stop") == (0, "stopped\n")
    assert eventually(lambda: not is_open(supervised.port))


def test_workers_that_outlive_the_server_end_with_it(tmp_path: Path) -> None:
    server = "exec python3 {root}/serve.py {root}/engine.json x 127.0.0.1 y {port}"
    launch = ["sh", "-c", f"sleep 300 & {server}"]
    it = Supervised(tmp_path / "e", argv=launch)
    code, text = it("start")
    assert code == 0, text
    group = int((it.out / "run/server.pid").read_text().split()[0])
    assert it("stop")[0] == 0
    assert eventually(lambda: subprocess.run(["pgrep", "-g", str(group)], check=False).returncode)


def test_a_pid_file_of_another_process_is_not_believed(supervised: Supervised) -> None:
    (supervised.out / "run").mkdir()
    (supervised.out / "run/supervisor.pid").write_text(f"{os.getpid()} 1\n")
    assert supervised("status")[0] == 3
    assert supervised("stop") == (0, "not running\n")


def test_any_text_reaches_the_server_as_it_is(tmp_path: Path) -> None:
    it = Supervised(tmp_path / "e", env={"GREETING": NASTY})
    try:
        assert it("start")[0] == 0
        assert get(it.port, "/env") == NASTY
    finally:
        it("stop")


def test_without_a_verb_it_explains_itself(supervised: Supervised) -> None:
    code, text = supervised("")
    assert code == 2
    assert "start" in text
    assert "stop" in text
