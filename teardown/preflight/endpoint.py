"""Does the address answer as an OpenAI-compatible API, by what engine, with which pages."""

import http.client
import socket
import ssl
import urllib.error
from typing import NamedTuple
from urllib.parse import urlsplit

from teardown.engines import Engine, detect
from teardown.engines.pages import root_of
from teardown.errors import TargetError
from teardown.http import fetch, fetch_json, post_json
from teardown.preflight.finding import Finding
from teardown.targets.forward import port_forward_at

PAGE_TIMEOUT_S = 3.0
NEEDS_KEY = frozenset({401, 403})
KEY_FIX = (
    "put the key in an environment variable and name it: --api-key-env NAME, or "
    "target.api_key_env in engagement.yaml"
)
BASE_FIX = "give the API's base, such as http://host:8000/v1; `curl URL/models` must list a model"


class Reached(NamedTuple):
    """The models that an address lists, and what was found; no models: nothing more to ask."""

    models: list[str]
    findings: list[Finding]


def reach(url: str, model: str | None, api_key: str | None) -> Reached:
    """Ask `url` for its models; where it has no list, `model` is taken at its word."""
    if not url.startswith(("http://", "https://")):
        return _unreached(f"{url!r} is no http or https address", BASE_FIX)
    if not url.endswith("/v1"):
        return _unreached(f"{url} does not end in /v1, as an API's base does", f"use {url}/v1")
    try:
        answer = fetch_json(f"{url}/models", timeout_s=PAGE_TIMEOUT_S, api_key=api_key)
    except TargetError as error:
        return _explain(url, model, error)
    rows = answer.get("data") if isinstance(answer, dict) else None
    rows = rows if isinstance(rows, list) else []
    served = [str(row["id"]) for row in rows if isinstance(row, dict) and row.get("id")]
    if not served:
        return _unreached(f"{url}/models lists no model", BASE_FIX)
    if model is not None and model not in served:
        text = f"{url} serves {', '.join(served)}, not {model!r}: every request would fail"
        fix = f"--model {served[0]}, or target.model in engagement.yaml"
        return Reached([], [Finding(name="model", level="fail", text=text, fix=fix)])
    return Reached(served, [_fine(url, served)])


def engine_of(url: str, api_key: str | None) -> tuple[Engine | None, Finding]:
    """Recognise the engine at `url`."""
    try:
        engine, found = detect(url, api_key=api_key)
    except TargetError as error:
        text = f"not recognised ({error}): metrics, options and most causes stay unknown"
        return None, Finding(name="engine", level="warn", text=text)
    if engine.name == "openai":
        return engine, Finding(
            name="engine", level="ok", text="an OpenAI-compatible server of no known kind"
        )
    text = f"{found.engine} {found.version or '(version unknown)'}"
    return engine, Finding(name="engine", level="ok", text=text)


def metrics(urls: list[str], api_key: str | None, *, granted: bool = True) -> Finding:
    """Fetch every metrics page."""
    cost = "waiting cannot be told from execution, most causes cannot be named"
    if not granted:
        return Finding(name="metrics", level="warn", text=f"not granted: {cost}")
    if not urls:
        return Finding(
            name="metrics",
            level="warn",
            text=f"no page of a known engine: {cost}",
            fix="where a gateway hides the engine, give the engine's own address",
        )
    for url in urls:
        try:
            fetch(url, timeout_s=PAGE_TIMEOUT_S, api_key=api_key)
        except TargetError as error:
            return Finding(
                name="metrics",
                level="warn",
                text=f"{_brief(error)}: {cost}",
                fix="switch it on (llama.cpp: --metrics), or name the page in target.metrics",
            )
    return Finding(name="metrics", level="ok", text=", ".join(urls))


def token_counts(
    url: str,
    model: str,
    api_key: str | None,
    *,
    local: str | None,
    has_usage: bool,
    tokenizer: str | None = None,
) -> Finding:
    """Say by what tokens can be counted: the server's usage, its tokenizer page, a local file.

    tokenizer: the one that the settings name, with which runs count where usage is missing.
    """
    if tokenizer is not None and not has_usage:
        text = f"by the tokenizer in {tokenizer}: the server reports no usage"
        return Finding(name="token counts", level="ok", text=text)
    others = [f"the tokenizer in {local}"] if local else []
    body = {"model": model, "prompt": "one two three", "content": "one two three"}
    try:
        page = f"{root_of(url)}/tokenize"
        answer = post_json(page, body, timeout_s=PAGE_TIMEOUT_S, api_key=api_key)
        if isinstance(answer, dict) and answer.get("tokens"):
            others.append("the server's /tokenize")
    except TargetError:
        pass  # it has no such page
    other = " and ".join(others)
    if has_usage:
        text = "by the server's usage" + (f"; {other} could check them" if other else " alone")
        return Finding(name="token counts", level="ok", text=text)
    text = "the server's usage is missing" + (
        f"; {other} could count" if other else ", and there is no tokenizer"
    )
    return Finding(
        name="token counts",
        level="warn",
        text=f"{text}: tokens per second, TPOT and equal work stay unknown",
        fix="let usage through (`stream_options.include_usage`), or name a tokenizer.json or GGUF "
        "file in target.tokenizer",
    )


def port_forward(url: str) -> Finding:
    """Fail where a `kubectl port-forward` of this host stands in between."""
    found = port_forward_at(url)
    if found is None:
        return Finding(name="port-forward", level="ok", text="none in between")
    return Finding(
        name="port-forward",
        level="fail",
        text=f"`{found.command}` (pid {found.pid}) stands in between: its delay would be measured "
        "instead of the stack's, and `teardown measure` refuses it",
        fix="run the kit inside the cluster, or use a Service, NodePort or ingress address",
    )


def _fine(url: str, served: list[str]) -> Finding:
    more = f" and {len(served) - 3} more" if len(served) > 3 else ""
    text = f"{url} serves {', '.join(served[:3])}{more}"
    return Finding(name="endpoint", level="ok", text=text)


def _explain(url: str, model: str | None, error: TargetError) -> Reached:
    """Say in one sentence why the list of models did not come."""
    cause = error.__cause__
    if isinstance(cause, urllib.error.HTTPError):
        return _refused(url, model, cause.code)
    if isinstance(cause, urllib.error.URLError) and isinstance(cause.reason, BaseException):
        cause = cause.reason
    host = urlsplit(url).netloc.rpartition("@")[2]
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _unreached(
            f"the certificate of {host} is not trusted here: {cause.verify_message}",
            "export SSL_CERT_FILE=/path/to/the/client's/ca.pem, and use the name it is issued for",
        )
    if isinstance(cause, ssl.SSLError):
        return _unreached(f"{host} does not speak TLS ({cause.reason})", "try http://")
    if isinstance(cause, ConnectionRefusedError):
        return _unreached(f"nothing listens at {host}", "start the server, or correct the port")
    if isinstance(cause, socket.gaierror):
        return _unreached(
            f"{host} is an unknown host", "correct the name, or join the client's VPN"
        )
    if isinstance(cause, TimeoutError):
        return _unreached(f"{host} did not answer within {PAGE_TIMEOUT_S:g} s", "check the route")
    if isinstance(cause, http.client.HTTPException):
        return _unreached(f"{host} does not speak HTTP", "try https://, or correct the port")
    if isinstance(cause, ValueError) and "did not answer with JSON" in str(error):
        return _unreached(f"{url}/models is a page for people, not the API's JSON", BASE_FIX)
    return _unreached(_brief(error), BASE_FIX)


def _refused(url: str, model: str | None, code: int) -> Reached:
    if code in NEEDS_KEY:
        return _unreached(f"{url}/models answers {code}: it wants an API key", KEY_FIX)
    if code == 404 and model is not None:
        text = f"{url}/models is not there (404): {model!r} is taken at its word"
        return Reached([model], [Finding(name="endpoint", level="warn", text=text)])
    return _unreached(f"{url}/models answers {code}: not the API's base, or not ready", BASE_FIX)


def _unreached(text: str, fix: str) -> Reached:
    return Reached([], [Finding(name="endpoint", level="fail", text=text, fix=fix)])


def _brief(error: TargetError) -> str:
    """Return an error without the page of HTML that a gateway may have answered with."""
    return " ".join(str(error).split())[:120]
