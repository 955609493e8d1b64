"""Every emitted file of one deployment, and the bundle that records them."""

import json
from urllib.parse import urlsplit

from iac.compose import compose_files, is_buildable
from iac.deployment import Deployment
from iac.host import host_files
from iac.monitoring.alerts import rules_of
from iac.monitoring.documents import alerts_of, monitoring_files
from iac.monitoring.rule import Rule
from iac.monitoring.table import Metrics, metrics_of
from iac.terraform import terraform_files
from teardown.records import Bundle, LaunchSpec, to_json
from teardown.settings import TargetSettings

BUNDLE = "bundle.json"
RUNBOOK_INDEX = "runbook/README.md"


def emitted_files(deployment: Deployment, target: TargetSettings) -> dict[str, str]:
    """Return path below `out/` -> text of everything but the runbook's pages, bundle included."""
    launch = deployment.launch
    files: dict[str, str] = {}
    if launch is not None:
        files |= host_files(deployment, launch)
        files |= terraform_files(deployment, launch)
        files |= compose_files(deployment, launch)
    metrics = watched_metrics(deployment)
    rules: list[Rule] = []
    if metrics is not None:
        rules = rules_of(deployment, metrics)
        files |= monitoring_files(deployment, metrics, rules, _targets(deployment, target))
    if not files:
        return {}
    return dict(sorted(files.items())) | {BUNDLE: to_json(_bundle(deployment, rules, files))}


def watched_metrics(deployment: Deployment) -> Metrics | None:
    """Return the engine's metrics; None for an engine without them or without a page of them."""
    launch = deployment.launch
    if launch is not None and launch.metrics_path is None:
        return None
    return metrics_of(deployment.stack.engine)


def notes_of(deployment: Deployment) -> list[str]:
    """Return what the reader must know about what was not emitted, and why."""
    notes = list(deployment.notes)
    if deployment.launch is not None and not is_buildable(deployment.launch):
        notes.append(
            f"No Compose files: {deployment.launch.argv[0]!r} is a program that no package here "
            "installs, so an image cannot be built from this folder."
        )
    metrics = watched_metrics(deployment)
    if metrics is None:
        notes.append(
            f"No monitoring: {deployment.stack.engine} has no metrics page that this version knows."
        )
    elif metrics.ttft is None and deployment.promises.ttft_s is not None:
        notes.append(
            f"{deployment.stack.engine} has no latency histogram, so no alert watches the promise "
            "on the first token; measure it at the client or at a gateway."
        )
    return notes


def _targets(deployment: Deployment, target: TargetSettings) -> list[str]:
    """Return `host:port` of each metrics page: the replicas that are named, or where it runs."""
    if deployment.launch is None and isinstance(target.metrics, list):
        named = [urlsplit(url).netloc.rpartition("@")[2] for url in target.metrics]
        if all(named) and named:
            return named
    return [f"{deployment.connect_host}:{deployment.deploy.port}"]


def _bundle(deployment: Deployment, rules: list[Rule], files: dict[str, str]) -> Bundle:
    """Return the record of what is emitted, the runbook's pages included."""
    alerts = alerts_of(rules)
    pages = [RUNBOOK_INDEX, *(alert.runbook for alert in alerts)]
    return Bundle(
        service=deployment.service,
        engagement=deployment.client,
        stack=deployment.stack,
        previous=deployment.previous,
        launch=deployment.launch or _no_launch(deployment),
        install_dir=deployment.deploy.install_dir,
        host=deployment.deploy.host,
        port=deployment.deploy.port,
        model_sha256=deployment.model_sha256,
        config_sha256=deployment.config_sha256,
        alerts=alerts,
        files=sorted([*files, *pages, BUNDLE]),
    )


def _no_launch(deployment: Deployment) -> LaunchSpec:
    """Return the launch of an endpoint that the kit cannot start: no command, known pages."""
    metrics = metrics_of(deployment.stack.engine)
    return LaunchSpec(
        argv=[],
        files={},
        env={},
        packages=[],
        health_path="/health",
        metrics_path=metrics.path if metrics else None,
        start_timeout_s=0.0,
        drain_s=0.0,
    )


def emit_document(files: list[str], config_sha256: str, notes: list[str]) -> str:
    """Return the one document of `emit --json`."""
    document = {
        "schema": "teardown.emit/1",
        "files": files,
        "config_sha256": config_sha256,
        "notes": notes,
    }
    return json.dumps(document, indent=1, ensure_ascii=False)
