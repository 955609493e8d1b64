"""The unit: verified by systemd's own checker, and run by a real systemd in namespaces."""

import dataclasses
import json
import os
import shutil
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
    tool,
    write_engagement,
)

BOOT = Path(__file__).with_name("systemd_in_namespaces.sh")
HOME = "/opt/teardown-test/llm"
SERVICE = "llm-tiny.service"


@pytest.mark.parametrize("client", ["Example Voice", NASTY])
@pytest.mark.parametrize("port", [8080, 443])
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path, client: str, port: int) -> None:
    verify = tool("systemd-analyze")
    out = run_emit(write_engagement(tmp_path / "e", client=client, port=port, user="daemon"))
    (unit,) = (out / "systemd").iterdir()
    done = subprocess.run(
        [verify, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_does_say_so_when_a_line_is_wrong(tmp_path: Path) -> None:
    verify = tool("systemd-analyze")
    out = run_emit(write_engagement(tmp_path / "e"))
    (unit,) = (out / "systemd").iterdir()
    unit.write_text(unit.read_text().replace("KillMode=", "KilMode="))
    assert "KilMode" in sh(verify, "verify", str(unit))[1]


def test_times_follow_the_launch(tmp_path: Path) -> None:
    launch = dataclasses.replace(launch_of(stack(parallel=4)), start_timeout_s=40.0, drain_s=20.0)
    out = run_emit(write_engagement(tmp_path / "e", launch=launch))
    lines = next((out / "systemd").iterdir()).read_text().splitlines()
    assert "TimeoutStartSec=80" in lines
    assert "TimeoutStopSec=30" in lines
    assert "KillMode=mixed" in lines


@dataclasses.dataclass
class Host:
    """A booted systemd; commands run inside its namespaces."""

    pid: int

    def __call__(self, *argv: str) -> tuple[int, str]:
        enter = ("nsenter", "--target", str(self.pid), "--mount", "--pid", "--uts", "--ipc")
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        return sh(*enter, "--cgroup", *argv, env=env)

    def show(self, name: str) -> str:
        return self("systemctl", "show", "--value", "--property", name, SERVICE)[1].strip()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A systemd of our own; skipped where namespaces, root or systemd are not to be had."""
    scratch = tmp_path_factory.mktemp("systemd")
    if os.geteuid() != 0:
        pytest.skip("booting systemd needs root")
    if not Path("/lib/systemd/systemd").exists() or not shutil.which("nsenter"):
        pytest.skip("systemd or nsenter is not installed")
    flags = ("--fork", "--pid", "--mount", "--uts", "--ipc", "--cgroup")
    if subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine forbids namespaces")
    log = (scratch.parent / "boot.log").open("wb")
    booted = subprocess.Popen(
        ["bash", str(BOOT), str(scratch)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
    )
    try:
        children = Path(f"/proc/{booted.pid}/task/{booted.pid}/children")

        def is_up() -> bool:
            found = children.read_text().split() if booted.poll() is None else []
            if not found:
                return False
            state = Host(int(found[0]))("systemctl", "is-system-running")[1]
            return "running" in state or "degraded" in state

        if not eventually(is_up, 20):
            pytest.skip(f"systemd did not boot here: {(scratch.parent / 'boot.log').read_text()}")
        yield Host(int(children.read_text().split()[0]))
    finally:
        booted.kill()
        booted.wait()
        log.close()


def _install(host: Host, out: Path, *more: str) -> None:
    code, text = host("sh", str(out / "install.sh"), *more)
    assert code == 0, text + host("journalctl", "--no-pager", "-n", "30")[1]


def test_installed_it_answers_survives_a_kill_rolls_back_and_goes(
    host: Host, tmp_path: Path
) -> None:
    port = free_port()
    launch = launch_of(stack(parallel=4), env={"GREETING": NASTY})
    config = {"options": {"parallel": 4}, "at": ["{host}", "{port}"], "model": "{model}"}
    launch = dataclasses.replace(launch, files=launch.files | {"engine.json": json.dumps(config)})
    folder = write_engagement(
        tmp_path / "e",
        client=NASTY,
        launch=launch,
        port=port,
        user="llm-test",  # does not exist: the installer makes it
        install_dir=HOME,
        python="/usr/bin/python3",
    )
    out = run_emit(folder)
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    _install(host, out, "--model", str(tmp_path / "tiny.gguf"))

    assert get(port, "/health") == "ok"
    assert get(port, "/env") == NASTY
    assert json.loads(get(port, "/config")) == {
        "options": {"parallel": 4},
        "at": ["127.0.0.1", port],
        "model": f"{HOME}/models/tiny.gguf",
    }
    assert host.show("User") == "llm-test"

    first = host.show("MainPID")
    assert host("kill", "-KILL", first)[0] == 0
    assert eventually(lambda: host.show("NRestarts") == "1" and get(port, "/health") == "ok")
    assert host.show("MainPID") not in {first, "0"}

    assert get(port, "/options") == '{"parallel": 4}'
    (previous,) = (out / "rollback").iterdir()
    page = (out / "runbook/LLMServerDown.md").read_text()
    command = next(
        line.strip() for line in page.splitlines() if previous.name in line and "ln" in line
    )
    code, text = host("sh", "-c", command)
    assert code == 0, text
    assert get(port, "/options") == '{"parallel": 1}'

    assert host("systemctl", "stop", SERVICE)[0] == 0
    assert not is_open(port)
    assert host.show("Result") == "success"
    _install(host, out, "--remove", "--purge")
    assert host("ls", HOME)[0] != 0
    assert not Path(HOME).exists()


def test_a_server_that_never_answers_fails_its_start(host: Host, tmp_path: Path) -> None:
    launch = launch_of(stack(parallel=4), argv=["{python}", "-c", "raise SystemExit(9)"])
    folder = write_engagement(
        tmp_path / "e",
        launch=launch,
        port=free_port(),
        user="daemon",
        install_dir=HOME,
        python="/usr/bin/python3",
    )
    out = run_emit(folder)
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    code, text = host("sh", str(out / "install.sh"), "--model", str(tmp_path / "tiny.gguf"))
    assert code != 0, text
    assert "failed" in text.lower()
    _install(host, out, "--remove", "--purge")
