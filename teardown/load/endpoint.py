"""Where requests go: the endpoint's address, its proxy, and the first line of every request."""

import errno
import ssl
from typing import Final
from urllib.parse import urlsplit

from teardown.errors import UsageError
from teardown.load.clock import StampClock
from teardown.load.proxy import Proxy, proxy_for
from teardown.load.wire import Address, Security, Wire, resolve

# What says that another address of the host may be the right one.
NOT_HERE: Final = frozenset(
    {
        errno.ECONNREFUSED,
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    }
)
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Endpoint:
    """One API below one URL, resolved once, through the environment's proxy where there is one.

    `addresses` holds every address of the host (of the proxy, if any), the one to try first at its
    head; `host` is what the Host header says. UsageError when the URL is not http or https, OSError
    when its host is unknown.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            scheme, hostname, port = parts.scheme, parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"{url!r} is not an address: {error}") from error
        if scheme not in DEFAULT_PORTS or not hostname:
            raise UsageError(f"{url!r} is not an http or https address")
        if parts.username is not None:
            raise UsageError(
                "the target's address holds a user name; put the key where `api_key_env` or "
                "`api_key_file` says"
            )
        port = port or DEFAULT_PORTS[scheme]
        bracketed = f"[{hostname}]" if ":" in hostname else hostname
        self.host = bracketed if port == DEFAULT_PORTS[scheme] else f"{bracketed}:{port}"
        self.base_path = parts.path.rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        proxy = proxy_for(scheme, hostname, port)
        self.addresses: list[Address] = (
            resolve(hostname, port) if proxy is None else resolve(proxy.host, proxy.port)
        )
        self._origin, self._proxy_header, self._security = "", "", None
        if scheme == "https":
            tunnel = _connect_head(f"{bracketed}:{port}", proxy)
            self._security = Security(ssl.create_default_context(), hostname, tunnel)
        elif proxy is not None:
            self._origin, self._proxy_header = f"http://{self.host}", proxy.header

    def head(self, path: str) -> str:
        """Return request line, host and, where the proxy reads it, the proxy's authorization."""
        target = f"{self._origin}{self.base_path}{path}{self._query}"
        return f"POST {target} HTTP/1.1\r\nHost: {self.host}\r\n{self._proxy_header}"

    def open(self, clock: StampClock) -> Wire:
        """Connect to the first address that can be reached, and begin with it the next time.

        "localhost" is often ::1 first, where few engines listen; a host may have an address of the
        newer kind and no route to it. OSError of the last address where none can be reached.
        """
        for number, address in enumerate(self.addresses):
            try:
                wire = Wire(address, clock, self._security)
            except OSError as error:
                if error.errno not in NOT_HERE or address == self.addresses[-1]:
                    raise
                continue
            if number:
                self.addresses = [address, *(a for a in self.addresses if a != address)]
            return wire
        raise ConnectionRefusedError("the host has no address")


def _connect_head(authority: str, proxy: Proxy | None) -> bytes | None:
    if proxy is None:
        return None
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{proxy.header}\r\n"
    return head.encode("latin-1", errors="replace")
