"""The proxy that the environment asks for: HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in either case.

A loopback address is never asked of a proxy, which would reach its own host and not ours.
"""

import base64
import ipaddress
import urllib.request
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from teardown.errors import UsageError

DEFAULT_PORT: Final = 80


class Proxy(NamedTuple):
    """An HTTP proxy; `authorization` is the header's value, None where none is asked for."""

    host: str
    port: int
    authorization: str | None

    @property
    def header(self) -> str:
        """The header line that the proxy alone may see, or nothing."""
        return f"Proxy-Authorization: {self.authorization}\r\n" if self.authorization else ""


def proxy_for(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the environment's proxy for `scheme`://`host`:`port`; None: go directly.

    UsageError where the environment names a proxy that is not plain HTTP.
    """
    proxies = urllib.request.getproxies_environment()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or is_loopback(host):
        return None
    bypass = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined]  # not in typeshed
    if bypass(f"{host}:{port}", proxies):
        return None
    return _parse(address if "://" in address else f"http://{address}", scheme)


def is_loopback(host: str) -> bool:
    """Return whether `host` is this machine by its loopback name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _parse(address: str, scheme: str) -> Proxy:
    # the address may hold a password: no error quotes it
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{scheme.upper()}_PROXY is not an address") from error
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(
            f"{scheme.upper()}_PROXY asks for a proxy by {parts.scheme}://, but only http:// is "
            "spoken; set it to one, or name the target in NO_PROXY"
        )
    return Proxy(parts.hostname, port or DEFAULT_PORT, _authorization(parts))


def _authorization(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
