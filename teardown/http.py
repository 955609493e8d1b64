"""Plain HTTP for probes and for the oracle; never for timed load."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from teardown.errors import TargetError

TIMEOUT_S = 10.0
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def fetch(url: str, *, timeout_s: float = TIMEOUT_S, api_key: str | None = None) -> str:
    """Return the body of a GET as text; TargetError in one sentence when there is none."""
    return _send(urllib.request.Request(url), timeout_s, api_key)


def fetch_json(url: str, *, timeout_s: float = TIMEOUT_S, api_key: str | None = None) -> Any:
    """Return the parsed JSON of a GET; TargetError when the answer is not JSON."""
    return _parse(url, fetch(url, timeout_s=timeout_s, api_key=api_key))


def post_json(
    url: str, body: dict[str, Any], *, timeout_s: float = 120.0, api_key: str | None = None
) -> Any:
    """Return the parsed JSON answer to a POST of `body`; TargetError as for fetch."""
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    return _parse(url, _send(request, timeout_s, api_key))


def _send(request: urllib.request.Request, timeout_s: float, api_key: str | None) -> str:
    if not request.full_url.startswith(("http://", "https://")):
        raise TargetError(f"{request.full_url!r} is not an http or https address")
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with _opener(request).open(request, timeout=timeout_s) as response:
            body: bytes = response.read()
            return body.decode("utf-8", errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            detail = error.read(2000).decode("utf-8", errors="replace").strip()
        raise TargetError(
            f"{request.full_url} answered {error.code} {error.reason}: {detail[:300]}"
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise TargetError(f"{request.full_url} cannot be reached: {reason}") from error


def _opener(request: urllib.request.Request) -> urllib.request.OpenerDirector:
    """Return an opener that goes through the environment's proxy, but never for this host."""
    is_here = (urllib.parse.urlsplit(request.full_url).hostname or "") in LOOPBACK
    handlers = [urllib.request.ProxyHandler({})] if is_here else []
    return urllib.request.build_opener(*handlers)


def _parse(url: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TargetError(f"{url} did not answer with JSON: {text[:80]!r}") from error
