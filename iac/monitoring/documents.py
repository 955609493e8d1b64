"""prometheus.yml, rules.yml and rules_test.yml, in the dialect of Prometheus 2.42."""

from typing import Any

from iac.deployment import Deployment
from iac.monitoring.rule import SCRAPE_S, Case, Rule, duration
from iac.monitoring.table import Metrics
from iac.quoting import prometheus_template, yaml_document
from iac.render import header
from teardown.records import Alert


def monitoring_files(
    deployment: Deployment, metrics: Metrics, rules: list[Rule], targets: list[str]
) -> dict[str, str]:
    """Return path below `out/` -> text. targets: `host:port` of each replica."""
    lines = [header(deployment), f"Metric names: {metrics.source}"]
    checks = "promtool check config prometheus.yml && promtool test rules rules_test.yml"
    return {
        "monitoring/prometheus.yml": yaml_document(
            _scrape(deployment, metrics, targets), [*lines, checks]
        ),
        "monitoring/rules.yml": yaml_document(_rules(deployment, rules), lines),
        "monitoring/rules_test.yml": yaml_document(
            _tests(deployment, rules), [*lines, "Each alert: one case that fires it, one quiet."]
        ),
    }


def alerts_of(rules: list[Rule]) -> list[Alert]:
    """Return the rules as the bundle records them, with the page of each."""
    return [
        Alert(
            alert=rule.alert,
            expr=rule.expr,
            for_s=float(rule.for_s),
            severity=rule.severity,
            summary=rule.summary,
            runbook=_page(rule),
        )
        for rule in rules
    ]


def _page(rule: Rule) -> str:
    return f"runbook/{rule.alert}.md"


def _scrape(deployment: Deployment, metrics: Metrics, targets: list[str]) -> dict[str, Any]:
    path = deployment.launch.metrics_path if deployment.launch else None
    job: dict[str, Any] = {"job_name": deployment.service}
    job["metrics_path"] = path or metrics.path
    job["static_configs"] = [{"targets": targets}]
    return {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [job],
    }


def _rules(deployment: Deployment, rules: list[Rule]) -> dict[str, Any]:
    group = {"name": deployment.service, "rules": [_rule(deployment, rule) for rule in rules]}
    return {"groups": [group]}


def _rule(deployment: Deployment, rule: Rule) -> dict[str, Any]:
    document: dict[str, Any] = {"alert": rule.alert, "expr": rule.expr}
    if rule.for_s:
        document["for"] = duration(rule.for_s)
    document["labels"] = _labels(deployment, rule)
    document["annotations"] = _annotations(deployment, rule)
    return document


def _labels(deployment: Deployment, rule: Rule) -> dict[str, str]:
    return {"severity": rule.severity, "config": deployment.release}


def _annotations(deployment: Deployment, rule: Rule) -> dict[str, str]:
    return {
        "summary": f"{prometheus_template(deployment.client)}: {rule.summary}",
        "description": prometheus_template(f"Threshold: {rule.because}."),
        "runbook_url": _page(rule),
    }


def _tests(deployment: Deployment, rules: list[Rule]) -> dict[str, Any]:
    cases = []
    for rule in rules:
        fired = {
            "exp_labels": {
                **_labels(deployment, rule),
                "job": deployment.service,
                "instance": "a",
            },
            "exp_annotations": {
                **_annotations(deployment, rule),
                "summary": f"{deployment.client}: {rule.summary}",
                "description": f"Threshold: {rule.because}.",
            },
        }
        cases.append(_case(f"{rule.alert} fires", rule, rule.firing, [fired]))
        cases.append(_case(f"{rule.alert} stays quiet", rule, rule.quiet, []))
    return {"rule_files": ["rules.yml"], "evaluation_interval": f"{SCRAPE_S}s", "tests": cases}


def _case(name: str, rule: Rule, case: Case, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": f"{SCRAPE_S}s",
        "input_series": [
            {"series": series, "values": values} for series, values in case.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": duration(case.at_s), "alertname": rule.alert, "exp_alerts": expected}
        ],
    }
