"""The names that pages are filled with, all from the bundle, and the commands made of them."""

import json
import re
import shlex
from dataclasses import dataclass

from teardown.records import Bundle

_RELEASE = re.compile(r"^(stack|rollback)/([0-9a-f]{12})/start$")
_METRIC = re.compile(r"[a-z_]+:[a-z_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to run the server, and its commands; `rollback` is None without an old release."""

    name: str
    start: str
    stop: str
    restart: str
    status: str
    status_shows: str
    logs: str
    installed: str
    upgrade: str
    rollback: str | None
    forward: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a page may name. release, previous_release: folder names on the host, by hash."""

    service: str
    install_dir: str
    url: str
    health_url: str
    metrics_url: str | None
    config_sha256: str
    release: str | None
    previous_release: str | None
    served_model: str
    ways: list[Way]

    def metrics_command(self, metrics: list[str]) -> str | None:
        """Return the command that prints `metrics` of the running server; None without a page."""
        if self.metrics_url is None or not metrics:
            return None
        pattern = "^(" + "|".join(metrics) + ")"
        return f"curl -gfsS {shlex.quote(self.metrics_url)} | grep -E {shlex.quote(pattern)}"

    @property
    def health_command(self) -> str:
        """Return the command that prints the status of the health page."""
        return f"curl -gsS -o /dev/null -w '%{{http_code}}\\n' {shlex.quote(self.health_url)}"

    @property
    def answer_command(self) -> str:
        """Return the command that asks for a short answer, which health pages do not prove."""
        body = {
            "model": self.served_model,
            "messages": [{"role": "user", "content": "Say yes."}],
            "max_tokens": 4,
        }
        return (
            f"curl -gfsS --max-time 60 {shlex.quote(self.url + '/v1/chat/completions')} "
            f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"
        )


def names_of(bundle: Bundle) -> Names:
    """Return the names of `bundle`."""
    releases = {m[1]: m[2] for name in bundle.files if (m := _RELEASE.match(name))}
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bundle.host, bundle.host)
    url = f"http://[{host}]:{bundle.port}" if ":" in host else f"http://{host}:{bundle.port}"
    path = bundle.launch.metrics_path
    release, previous = releases.get("stack"), releases.get("rollback")
    return Names(
        service=bundle.service,
        install_dir=bundle.install_dir,
        url=url,
        health_url=url + bundle.launch.health_path,
        metrics_url=url + path if path else None,
        config_sha256=bundle.config_sha256,
        release=release,
        previous_release=previous,
        served_model=bundle.stack.served_model,
        ways=_ways(bundle, release, previous),
    )


def metrics_in(expr: str) -> list[str]:
    """Return the engine's metrics that a rule reads, in the order in which it names them."""
    return list(dict.fromkeys(_METRIC.findall(expr)))


def _ways(bundle: Bundle, release: str | None, previous: str | None) -> list[Way]:
    if release is None:
        return []
    service, home = f"{bundle.service}.service", shlex.quote(bundle.install_dir)
    run = f"sh {home}/supervisor/run.sh"
    installed = f"cat {home}/current/CONFIG_SHA256"

    def to(target: str | None, restart: str) -> str | None:
        return f"ln -sfn releases/{target} {home}/current && {restart}" if target else None

    ways = [
        Way(
            name="systemd",
            start=f"systemctl start {service}",
            stop=f"systemctl stop {service}",
            restart=f"systemctl restart {service}",
            status=f"systemctl status --no-pager {service}",
            status_shows="`Active: active (running)`",
            logs=f"journalctl --no-pager -n 50 -u {service}",
            installed=installed,
            upgrade="sh install.sh --supervisor systemd",
            rollback=to(previous, f"systemctl restart {service}"),
            forward=to(release, f"systemctl restart {service}"),
        ),
        Way(
            name="supervisor script",
            start=f"{run} start",
            stop=f"{run} stop",
            restart=f"{run} restart",
            status=f"{run} status",
            status_shows="a line that starts with `running:` and ends with `answers`",
            logs=f"{run} logs",
            installed=installed,
            upgrade="sh install.sh --supervisor process",
            rollback=to(previous, f"{run} restart"),
            forward=to(release, f"{run} restart"),
        ),
    ]
    if "compose/compose.yaml" in bundle.files:
        compose = "docker compose -f compose/compose.yaml"
        up = f"{compose} up -d --wait"
        ways.append(
            Way(
                name="Compose",
                start=up,
                stop=f"{compose} stop",
                restart=f"{compose} restart",
                status=f"{compose} ps",
                status_shows="`(healthy)`",
                logs=f"{compose} logs --tail 50",
                installed=(
                    f"{compose} exec {bundle.service} "
                    "sh -c 'cat releases/$LLM_RELEASE/CONFIG_SHA256'"
                ),
                upgrade=f"{compose} up -d --build --wait",
                rollback=f"LLM_RELEASE={previous} {up}" if previous else None,
                forward=f"LLM_RELEASE={release} {up}" if previous else None,
            )
        )
    return ways
