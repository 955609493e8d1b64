"""What was emitted: names, ports, units, alerts, hash. Runbooks and report read this, not `iac`."""

from dataclasses import dataclass
from typing import ClassVar

from teardown.records.stack import LaunchSpec, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert rule and the runbook page that it points to. for_s: how long it must hold."""

    alert: str
    expr: str
    for_s: float
    severity: str
    summary: str
    runbook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The emitted stack. config_sha256 stamps every file; files lists paths below `out/`."""

    SCHEMA: ClassVar[str] = "teardown.bundle/1"

    service: str
    engagement: str
    stack: Stack
    previous: Stack
    launch: LaunchSpec
    install_dir: str
    host: str
    port: int
    model_sha256: str | None
    config_sha256: str
    alerts: list[Alert]
    files: list[str]
