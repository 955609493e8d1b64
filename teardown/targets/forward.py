"""A `kubectl port-forward` in front of a URL is found by who listens; timed runs refuse it.

It copies every byte through the API server over one connection: its delay and its stalls would be
charged to the stack, and it drops under load. Linux: /proc/net/tcp names the listening socket,
/proc/*/fd who holds it, /proc/*/cmdline what that process is.
"""

import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from teardown.errors import TargetError

PROC = Path("/proc")
LISTENING = "0A"  # include/net/tcp_states.h
PORT_FORWARD = "port-forward"
DEFAULT_PORTS = {"http": 80, "https": 443}
_PORTS = re.compile(r"\d+(:\d+)?")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class PortForward(NamedTuple):
    """The process that forwards, and its command with the ports that it forwards."""

    pid: int
    command: str


def refuse_port_forward(url: str) -> None:
    """TargetError where `url` leads through a port-forward of this host."""
    found = port_forward_at(url)
    if found is not None:
        raise TargetError(
            f"{url} leads through `{found.command}` (pid {found.pid}), whose delay would be "
            "measured instead of the stack's; run the kit inside the cluster or use the address "
            "of a Service, NodePort or ingress"
        )


def port_forward_at(url: str, *, proc: Path = PROC) -> PortForward | None:
    """Return the port-forward that listens at `url`; None where there is none, or no telling.

    Only an address of the loopback interface can lead to one that this host runs. A process of
    another user hides its sockets: it is found by the local port in its command line.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:  # no address at all: what asks for it says so
        return None
    addresses = _loopback_addresses(parts.hostname)
    if not addresses or port is None:
        return None
    inodes = _listeners(proc, port, addresses)
    if not inodes:
        return None
    for pid, argv in _commands(proc):
        if PORT_FORWARD not in argv:
            continue
        held = _sockets(proc, pid)
        is_it = bool(held & inodes) if held is not None else _names(argv, port)
        if is_it:
            return PortForward(pid, _shown(argv))
    return None


def _loopback_addresses(host: str | None) -> set[IpAddress]:
    if not host:
        return set()
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    addresses = {ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in found}
    return {address for address in addresses if address.is_loopback}


def _listeners(proc: Path, port: int, addresses: set[IpAddress]) -> set[str]:
    """Return the inodes of the sockets that take connections to `port` on one of `addresses`."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in _text(proc / "net" / table).splitlines()[1:]:
            fields = line.split()
            if len(fields) < 10 or fields[3] != LISTENING:
                continue
            packed, _, number = fields[1].rpartition(":")
            address = _address(packed)
            if int(number, 16) == port and (address.is_unspecified or address in addresses):
                found.add(fields[9])
    return found


def _address(packed: str) -> IpAddress:
    """Return an address that the kernel prints as 32-bit words in the order of the machine."""
    words = re.findall("[0-9A-Fa-f]{8}", packed)
    raw = b"".join(bytes.fromhex(word)[::-1] for word in words)  # little-endian machines
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def _commands(proc: Path) -> Iterator[tuple[int, list[str]]]:
    for folder in proc.iterdir():
        if folder.name.isdigit():
            yield int(folder.name), _text(folder / "cmdline").rstrip("\0").split("\0")


def _sockets(proc: Path, pid: int) -> set[str] | None:
    """Return the inodes of the sockets that `pid` holds; None where that may not be read."""
    try:
        links = [str(path.readlink()) for path in (proc / str(pid) / "fd").iterdir()]
    except OSError:
        return None
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def _names(argv: list[str], port: int) -> bool:
    """True where a port-forward's command line has `port` as a local one."""
    return any(pair.partition(":")[0] == str(port) for pair in _ports(argv))


def _ports(argv: list[str]) -> list[str]:
    """Return the pairs of ports of `port-forward NAME 8080:80 9000`, as they are written."""
    return [word for word in argv[argv.index(PORT_FORWARD) :] if _PORTS.fullmatch(word)]


def _shown(argv: list[str]) -> str:
    """Return the command by its ports alone: other words may be a token."""
    tool = "oc" if any(word.rpartition("/")[2] == "oc" for word in argv) else "kubectl"
    return " ".join([tool, PORT_FORWARD, *_ports(argv)])


def _text(path: Path) -> str:
    """Return a file of procfs; empty when it is gone or not ours to read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
