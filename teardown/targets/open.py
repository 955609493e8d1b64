"""From settings to a Target."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from teardown import credentials
from teardown.engagement import Engagement
from teardown.engines import EMBEDDED_NAME, Engine, engine_by_name, engine_for_launcher
from teardown.engines.embedded import embedded_model
from teardown.engines.protocol import Launch
from teardown.errors import FeatureMissing, UsageError
from teardown.settings import LaunchSettings, Settings, TargetSettings
from teardown.targets.endpoint import EndpointTarget
from teardown.targets.local import HOST, LocalTarget
from teardown.targets.manual import ManualTarget
from teardown.targets.protocol import Target


def make_target(
    settings: Settings,
    engagement: Engagement,
    *,
    ask: Callable[[str], str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Target:
    """Return the Target of an engagement; the embedded model is fetched where it is asked for."""
    target = settings.target
    if target.kind == "local":
        return _local(target, settings, engagement)
    if target.kind in ("endpoint", "manual"):
        endpoint = EndpointTarget(
            base_url(target.url),
            target.model,
            engine=None if target.engine == "auto" else engine_by_name(target.engine),
            metrics=target.metrics,
            access=settings.access,
            api_key=api_key(target),
        )
        if target.kind == "endpoint":
            return endpoint
        options = target.launch.options if target.launch else {}
        return ManualTarget(endpoint, options, access=settings.access, tell=tell, ask=ask)
    raise FeatureMissing(
        f"target.kind {target.kind} is not there yet; use `manual` (the kit says each change), "
        "`endpoint` (measure only) or `local`"
    )


def base_url(url: str) -> str:
    """Return `url` without a slash at its end; UsageError unless it is http(s) and ends in /v1."""
    trimmed = url.rstrip("/")
    if not trimmed.startswith(("http://", "https://")) or not trimmed.endswith("/v1"):
        raise UsageError(
            f"target.url is {url!r}; it must start with http:// or https:// and end in /v1, "
            "such as http://127.0.0.1:8080/v1"
        )
    return trimmed


def api_key(target: TargetSettings) -> str | None:
    """Return the key that the settings name; UsageError when it is not there."""
    return credentials.api_key(target.api_key_env, target.api_key_file)


def _local(target: TargetSettings, settings: Settings, engagement: Engagement) -> LocalTarget:
    launch_settings = target.launch
    if launch_settings is None:
        raise UsageError("target.kind is local, so `target.launch` must say what starts")
    engine = _engine(target, launch_settings)
    parts = urlsplit(base_url(target.url)) if target.url else None
    return LocalTarget(
        engine,
        _launch(target, launch_settings, engagement),
        engagement.folder,
        port=parts.port if parts else None,
        host=(parts.hostname or HOST) if parts else HOST,
        access=settings.access,
    )


def _engine(target: TargetSettings, launch: LaunchSettings) -> Engine:
    engine = engine_for_launcher(launch.launcher)
    if target.engine not in ("auto", engine.name):
        raise UsageError(
            f"target.engine is {target.engine!r}, but launch.with {launch.launcher!r} starts "
            f"{engine.name!r}"
        )
    return engine


def _launch(target: TargetSettings, launch: LaunchSettings, engagement: Engagement) -> Launch:
    model = _found(launch.model, engagement)
    is_embedded = model in (None, EMBEDDED_NAME) and launch.launcher != "vllm"
    if is_embedded:
        model = str(embedded_model(None))
    return Launch(
        launcher=launch.launcher,
        model=model,
        served_model=target.model or (EMBEDDED_NAME if is_embedded else _short(model)),
        options=dict(launch.options),
        binary=_found(launch.binary, engagement),
        env=dict(launch.env),
    )


def _found(name: str | None, engagement: Engagement) -> str | None:
    """Return a path whole, seen from the engagement's folder or from here; else the name as is.

    The server runs in a folder of its own, where a relative path would mean another file.
    """
    if name is None:
        return None
    for path in (engagement.folder / Path(name).expanduser(), Path(name).expanduser()):
        if path.exists():
            return str(path.resolve())
    return name


def _short(model: str | None) -> str:
    """Return the name to serve a model under where the settings give none."""
    return (model or "model").rstrip("/").rpartition("/")[2].removesuffix(".gguf")
