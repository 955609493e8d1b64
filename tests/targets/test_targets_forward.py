"""A port-forward is recognised by who listens at the address; the script `kubectl` plays one."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from teardown.errors import TargetError
from teardown.targets.forward import port_forward_at, refuse_port_forward

KUBECTL = str(Path(__file__).parents[1] / "fakes" / "kubectl")
LISTEN = (
    "import socket; s = socket.create_server(('127.0.0.1', 0));"
    "print(s.getsockname()[1], flush=True); s.accept()"
)


@contextmanager
def listening(*argv: str) -> Iterator[int]:
    """Run a program that prints the port it listens on; return that port."""
    process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def url_of(port: int, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{port}/v1"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_forward_is_refused_with_its_pid_and_what_to_use_instead(host: str) -> None:
    with listening(KUBECTL, "port-forward", "--token", "s3cret", "svc/vllm", "0:8000") as port:
        found = port_forward_at(url_of(port, host))
        assert found is not None
        assert found.command == "kubectl port-forward 0:8000"  # the token is not shown
        with pytest.raises(TargetError, match=f"pid {found.pid}.*ingress"):
            refuse_port_forward(url_of(port, host))


def test_a_port_forward_on_ipv6_is_found() -> None:
    with listening(KUBECTL, "--ipv6", "port-forward", "pod/a", "0:8000") as port:
        assert port_forward_at(url_of(port, "[::1]")) is not None
        assert port_forward_at(url_of(port)) is None  # nothing of it listens there


def test_another_server_on_this_host_is_no_port_forward() -> None:
    with listening(KUBECTL, "port-forward", "pod/a", "0:8000"), listening("-c", LISTEN) as port:
        assert port_forward_at(url_of(port)) is None
        refuse_port_forward(url_of(port))


def test_a_closed_port_and_an_address_elsewhere_are_no_port_forward() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert port_forward_at(url_of(port)) is None
    assert port_forward_at("http://192.0.2.1:8000/v1") is None
    assert port_forward_at("http://127.0.0.1:99999/v1") is None


def test_an_unknown_name_is_no_port_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert port_forward_at("http://gateway/v1") is None


def a_proc(folder: Path, local_address: str) -> Path:
    """Lay out /proc with one listener at port 8000 and a port-forward whose fd nobody may read."""
    (folder / "net").mkdir()
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"
    row = f"   0: {local_address}:1F40 00000000:0000 0A 0:0 00:0 0 1000 0 4711 1 0 100 0 0 10 0"
    (folder / "net" / "tcp").write_text(f"{head}\n{row}\n")
    (folder / "42").mkdir()
    (folder / "42" / "cmdline").write_text("kubectl\0port-forward\0svc/a\08000:80\0")
    return folder


def test_a_port_forward_of_another_user_is_found_by_its_local_port(tmp_path: Path) -> None:
    proc = a_proc(tmp_path, "0100007F")
    found = port_forward_at(url_of(8000), proc=proc)
    assert found is not None
    assert found.pid == 42
    assert port_forward_at(url_of(8001), proc=proc) is None
    (proc / "42" / "cmdline").write_text("kubectl\0port-forward\0svc/a\08080:8000\0")
    assert port_forward_at(url_of(8000), proc=proc) is None


def test_a_listener_on_another_loopback_address_is_not_the_one_that_answers(
    tmp_path: Path,
) -> None:
    assert port_forward_at(url_of(8000), proc=a_proc(tmp_path, "0200007F")) is None
