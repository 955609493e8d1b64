"""Ports of this host: a free one, and whether one is taken."""

import socket

from teardown.errors import EngineFailed


def free_port(host: str) -> int:
    """Return a port that nobody listens on at this moment."""
    with _socket(host) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def check_free(host: str, port: int) -> None:
    """EngineFailed when another process has the port."""
    with _socket(host) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise EngineFailed(
                f"port {port} on {host} cannot be used ({error.strerror}); stop what listens there "
                "or choose another in target.url"
            ) from error


def base_url(host: str, port: int) -> str:
    """Return the base URL of a server there; it ends in /v1."""
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
