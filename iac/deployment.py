"""What is to be emitted: the verdict's stack, where it will run, and the hash that stamps it."""

import hashlib
import ipaddress
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from iac.previous import previous_launch
from teardown.engagement import sha256_file
from teardown.errors import UsageError
from teardown.records import LaunchSpec, Stack, VerdictRecord
from teardown.settings import Deploy, Promises, Settings

# The narrow alphabets of what ends up in paths, unit files and SSH commands. Everything else
# (client, model, options, environment) may be any text and is quoted instead.
_PATH = re.compile(r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PYTHON = re.compile(r"[A-Za-z0-9._/+-]+")
_MODEL_FILE = re.compile(r"\.(gguf|ggml|safetensors|bin)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One stack on one host.

    launch is None for an endpoint that the kit cannot start. previous_launch starts the original
    stack; None where the accepted stack is the original, or where its start cannot be derived.
    model_file: the model's name below `models/`; None where the launcher takes a public name.
    baseline_tokens_per_s: output of the accepted stack under the proof's load.
    """

    service: str
    client: str
    stack: Stack
    previous: Stack
    launch: LaunchSpec | None
    previous_launch: LaunchSpec | None
    deploy: Deploy
    promises: Promises
    config_sha256: str
    previous_sha256: str
    model_file: str | None
    previous_model_file: str | None
    model_sha256: str | None
    baseline_tokens_per_s: float | None
    has_gpu: bool
    notes: list[str]

    @property
    def release(self) -> str:
        """The folder name of the stack on the host: the first twelve digits of its hash."""
        return self.config_sha256[:12]

    @property
    def previous_release(self) -> str | None:
        """The same for the stack to roll back to; None where there is none."""
        return self.previous_sha256[:12] if self.previous_launch else None

    @property
    def connect_host(self) -> str:
        """The host that a client on the same machine connects to, in brackets for IPv6."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.deploy.host, self.deploy.host)
        return f"[{host}]" if ":" in host else host

    @property
    def is_local(self) -> bool:
        """True where the stack runs on the machine that the kit runs on."""
        return self.deploy.host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")


def deployment_of(verdict: VerdictRecord, settings: Settings, folder: Path) -> Deployment:
    """Return what the engagement in `folder` deploys; UsageError for a wrong `deploy`."""
    deploy, notes = _checked(settings.deploy), []
    stack = verdict.accepted or verdict.original
    if verdict.launch is None and urlsplit(settings.target.url).hostname:
        deploy = _deploy_of_endpoint(deploy, settings.target.url)
    if verdict.accepted is None:
        notes.append("No change helped: this is the original stack, with monitoring and a runbook.")
    original_launch = None
    if verdict.launch and _asked(verdict.original) != _asked(stack):
        original_launch = previous_launch(verdict.launch, stack, verdict.original)
        if original_launch is None:
            notes.append(
                "The original options are not visible in the start command, so no rollback "
                "files were written; start the original stack as before this engagement."
            )
    model, model_file = _model(stack.model, folder)
    _, previous_model_file = _model(verdict.original.model, folder)
    return Deployment(
        service=service_name(stack.served_model or stack.engine),
        client=settings.client,
        stack=stack,
        previous=verdict.original,
        launch=verdict.launch,
        previous_launch=original_launch,
        deploy=deploy,
        promises=settings.promises,
        config_sha256=config_sha256(stack, verdict.launch, deploy),
        previous_sha256=config_sha256(verdict.original, original_launch, deploy),
        model_file=model_file,
        previous_model_file=previous_model_file,
        model_sha256=sha256_file(model) if model and model.is_file() else None,
        baseline_tokens_per_s=_baseline(verdict),
        has_gpu=stack.launcher == "vllm" or bool(stack.options.get("n-gpu-layers")),
        notes=notes,
    )


def config_sha256(stack: Stack, launch: LaunchSpec | None, deploy: Deploy) -> str:
    """Return the SHA-256 of what is served, how it is started and where, as canonical JSON."""
    document: dict[str, Any] = {
        "stack": msgspec.to_builtins(_asked(stack)),
        "launch": msgspec.to_builtins(launch),
        "deploy": msgspec.to_builtins(deploy),
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _asked(stack: Stack) -> Stack:
    """Return `stack` without what its engine said at run time, which differs by machine."""
    return replace(stack, effective={}, version=None)


def service_name(served_model: str) -> str:
    """Return the unit's name: `llm-` and the model's name in lower case letters and digits."""
    slug = re.sub(r"[^a-z0-9]+", "-", served_model.lower()).strip("-")[:40].strip("-")
    return f"llm-{slug or 'server'}"


def _checked(deploy: Deploy) -> Deploy:
    """Return `deploy` unless a field would not fit a path, a unit file or an SSH command."""
    parts = deploy.install_dir.split("/")
    if not _PATH.fullmatch(deploy.install_dir) or ".." in parts or len(parts) < 3:
        raise UsageError(
            f"deploy.install_dir is {deploy.install_dir!r}; use an absolute path of its own, at "
            "least two folders deep, of letters, digits, dot, hyphen and underscore"
        )
    if not 1 <= deploy.port <= 65535:
        raise UsageError(f"deploy.port is {deploy.port}; use 1 to 65535")
    if not _USER.fullmatch(deploy.user):
        raise UsageError(f"deploy.user is {deploy.user!r}; use a Linux user name")
    if not _PYTHON.fullmatch(deploy.python):
        raise UsageError(f"deploy.python is {deploy.python!r}; use a command name or a path")
    if not _HOST.fullmatch(deploy.host) and not _is_address(deploy.host):
        raise UsageError(f"deploy.host is {deploy.host!r}; use a host name or an address")
    return deploy


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # an IPv6 zone is of one machine


def _deploy_of_endpoint(deploy: Deploy, url: str) -> Deploy:
    """Return `deploy` at the endpoint's own address: nothing is moved, only watched."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise UsageError(f"target.url is {url!r}: {error}") from error
    return _checked(replace(deploy, host=parts.hostname or deploy.host, port=port))


def _model(model: str, folder: Path) -> tuple[Path | None, str | None]:
    """Return the model's path here (None where it is not here) and its name below `models/`."""
    path = Path(model).expanduser()
    here = path if path.is_absolute() else folder / path
    if model and here.name and here.exists():
        return here, here.name
    if path.is_absolute() or _MODEL_FILE.search(model):
        return None, path.name or None
    return None, None


def _baseline(verdict: VerdictRecord) -> float | None:
    """Return the accepted stack's output tokens per second, from the verdict's headlines."""
    for headline in verdict.headlines:
        if headline.metric == "output_tokens_per_s":
            shown = headline.after if verdict.accepted else headline.before
            return shown.value if shown and shown.value > 0 else None
    return None
