"""The files that run on the host: releases, the unit, the supervisor, the installer."""

import json
import re
from pathlib import PurePosixPath

from iac.deployment import Deployment
from iac.render import (
    RESTART_LIMIT,
    RESTART_WINDOW_S,
    header,
    render,
    start_timeout_s,
    stop_timeout_s,
)
from teardown.errors import UsageError
from teardown.records import LaunchSpec

PLACEHOLDERS = ("{python}", "{root}", "{model}", "{host}", "{port}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEALTH = re.compile(r"/[A-Za-z0-9._~/?=&-]*")


def host_files(deployment: Deployment, launch: LaunchSpec) -> dict[str, str]:
    """Return path below `out/` -> text for everything that a host without containers needs."""
    context = _context(deployment, launch)
    files = release_files(
        deployment, launch, f"stack/{deployment.release}", deployment.model_file
    ) | {
        f"systemd/{deployment.service}.service": render("unit.service.j2", context),
        "supervisor/run.sh": render("run.sh.j2", context),
        "install.sh": render("install.sh.j2", context),
    }
    if deployment.previous_launch and deployment.previous_release:
        files |= release_files(
            deployment,
            deployment.previous_launch,
            f"rollback/{deployment.previous_release}",
            deployment.previous_model_file,
        )
    return files


def release_files(
    deployment: Deployment, launch: LaunchSpec, folder: str, model_file: str | None
) -> dict[str, str]:
    """Return one release: the start command, the engine's own files, the packages."""
    _check(launch)
    sha256 = deployment.config_sha256 if folder.startswith("stack/") else deployment.previous_sha256
    stack = deployment.stack if folder.startswith("stack/") else deployment.previous
    start = render(
        "start.sh.j2",
        _context(deployment, launch)
        | {
            "header": header(deployment).replace(deployment.config_sha256, sha256),
            "model": stack.model,
            "model_file": model_file,
            "argv": launch.argv,
            "env": sorted(launch.env.items()),
            "release": sha256[:12],
            "to_fill": sorted(n for n, text in launch.files.items() if _has_placeholder(n, text)),
        },
    )
    packages = f"# {header(deployment).replace(deployment.config_sha256, sha256)}\n"
    packages += "".join(f"{package}\n" for package in launch.packages)
    return {
        f"{folder}/start": start,
        f"{folder}/packages.txt": packages,
        f"{folder}/CONFIG_SHA256": sha256 + "\n",  # the engine's own files may not allow comments
    } | {f"{folder}/{name}": text for name, text in launch.files.items()}


def _has_placeholder(name: str, text: str) -> bool:
    """True for a JSON file in which some value is a placeholder and nothing else.

    Programs are left alone: `{port}` in one of them is its own business.
    """
    if not name.endswith(".json"):
        return False
    try:
        return _holds_placeholder(json.loads(text))
    except ValueError:
        return False


def _holds_placeholder(value: object) -> bool:
    if isinstance(value, dict):
        return any(_holds_placeholder(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_holds_placeholder(inner) for inner in value)
    return value in PLACEHOLDERS if isinstance(value, str) else False


def _context(deployment: Deployment, launch: LaunchSpec) -> dict[str, object]:
    deploy = deployment.deploy
    return {
        "header": header(deployment),
        "service": deployment.service,
        "description": f"{deployment.stack.served_model} for {deployment.client}",
        "release": deployment.release,
        "user": deploy.user,
        "install_dir": deploy.install_dir,
        "host": deploy.host,
        "port": deploy.port,
        "default_python": deploy.python,
        "health_path": launch.health_path,
        "start_timeout_s": start_timeout_s(deployment),
        "stop_timeout_s": stop_timeout_s(deployment),
        "drain_s": round(launch.drain_s),
        "restart_limit": RESTART_LIMIT,
        "restart_window_s": RESTART_WINDOW_S,
        "model_file": deployment.model_file,
        "model_sha256": deployment.model_sha256,
        "packages": launch.packages,
    }


def _check(launch: LaunchSpec) -> None:
    """Refuse a LaunchSpec whose names cannot be names; values may be any text."""
    if not launch.argv:
        raise UsageError("verdict.json: launch.argv is empty, so nothing can be started")
    for name in launch.env:
        if not _NAME.fullmatch(name):
            raise UsageError(f"verdict.json: launch.env has {name!r}, not a variable's name")
    for name in launch.files:
        path = PurePosixPath(name)
        reserved = path.parts[:1] in (("start",), ("packages.txt",), ("CONFIG_SHA256",), ())
        if path.is_absolute() or ".." in path.parts or reserved or not name.isprintable():
            raise UsageError(f"verdict.json: launch.files has {name!r}, not a path below {{root}}")
    for package in launch.packages:
        if "\n" in package or package.startswith("-"):
            raise UsageError(f"verdict.json: launch.packages has {package!r}, not a requirement")
    if not _HEALTH.fullmatch(launch.health_path):
        raise UsageError(f"verdict.json: launch.health_path is {launch.health_path!r}, not a path")
    if any("\0" in word for word in [*launch.argv, *launch.env.values()]):
        raise UsageError("verdict.json: launch has a NUL character, which no command can carry")
