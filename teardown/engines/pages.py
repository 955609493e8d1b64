"""The pages that OpenAI-compatible servers share: /v1/models, and addresses beside /v1."""

from typing import Any

from teardown.errors import TargetError
from teardown.http import fetch, fetch_json

PROBE_TIMEOUT_S = 5.0


def root_of(url: str) -> str:
    """Return the server's root for a base `url` that ends in /v1."""
    return url.rstrip("/").removesuffix("/v1")


def page(url: str, path: str, api_key: str | None = None) -> Any:
    """Return the JSON of `path` under the server's root; None when it does not answer so."""
    try:
        return fetch_json(root_of(url) + path, timeout_s=PROBE_TIMEOUT_S, api_key=api_key)
    except TargetError:
        return None


def answers(url: str, path: str) -> bool:
    """True when `path` under the server's root answers with success."""
    try:
        fetch(root_of(url) + path, timeout_s=PROBE_TIMEOUT_S)
    except TargetError:
        return False
    return True


def model_rows(url: str, api_key: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of /v1/models; empty when the page is not there or not a list of models."""
    document = page(url, "/v1/models", api_key)
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        return []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)]
