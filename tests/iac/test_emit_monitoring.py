"""Prometheus reads the rules, each alert fires and stays quiet, and no metric is made up."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from iac.monitoring.rule import duration
from iac.monitoring.table import metrics_of
from teardown.engine_facts import metric_rows
from teardown.records import Bundle, read
from tests.iac.engagements import NASTY, launch_of, run_emit, sh, stack, tool, write_engagement

ENGINES = ["llama.cpp", "vllm"]
# What the engines' own metrics pages list: vLLM 0.26.0 on an H200, xllamacpp 2026.10.11549.
REAL = {
    "llama.cpp": {
        "llamacpp:requests_processing",
        "llamacpp:requests_deferred",
        "llamacpp:tokens_predicted_total",
        "llamacpp:n_decode_total",
    },
    "vllm": {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:generation_tokens_total",
        "vllm:iteration_tokens_total_count",
        "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions_total",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:time_to_first_token_seconds_count",
        "vllm:request_queue_time_seconds_sum",
        "vllm:request_queue_time_seconds_count",
    },
}


@pytest.mark.parametrize("client", ["Example Voice", NASTY])
@pytest.mark.parametrize("engine", ENGINES)
def test_promtool_accepts_configuration_rules_and_their_tests(
    tmp_path: Path, engine: str, client: str
) -> None:
    promtool = tool("promtool")
    folder = run_emit(write_engagement(tmp_path / "e", engine=engine, client=client)) / "monitoring"
    for command in (
        ("check", "config", str(folder / "prometheus.yml")),
        ("check", "rules", str(folder / "rules.yml")),
        ("test", "rules", str(folder / "rules_test.yml")),
    ):
        code, text = sh(promtool, *command)
        assert code == 0, text
        assert "SUCCESS" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rule_that_never_fires_fails_its_test(tmp_path: Path, engine: str) -> None:
    promtool = tool("promtool")
    folder = run_emit(write_engagement(tmp_path / "e", engine=engine)) / "monitoring"
    rules = folder / "rules.yml"
    document = yaml.safe_load(rules.read_text())
    for rule in document["groups"][0]["rules"]:
        rule["expr"] = "vector(0) > 1"
    rules.write_text(yaml.safe_dump(document))
    code, text = sh(promtool, "test", "rules", str(folder / "rules_test.yml"))
    assert code != 0
    for rule in document["groups"][0]["rules"]:
        assert f"alertname: {rule['alert']}" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_rules_read_only_metrics_that_the_engine_has(tmp_path: Path, engine: str) -> None:
    bundle = read(Bundle, run_emit(write_engagement(tmp_path / "e", engine=engine)) / "bundle.json")
    read_by_rules = {m for a in bundle.alerts for m in re.findall(r"[a-z]+:[a-z_]+", a.expr)}
    assert read_by_rules
    assert read_by_rules <= REAL[engine]


@pytest.mark.parametrize("engine", ENGINES)
def test_each_alert_says_what_it_is_and_where_its_page_lies(tmp_path: Path, engine: str) -> None:
    out = run_emit(write_engagement(tmp_path / "e", engine=engine))
    document = yaml.safe_load((out / "monitoring/rules.yml").read_text())
    for rule in document["groups"][0]["rules"]:
        annotations = rule["annotations"]
        assert annotations["runbook_url"] == f"runbook/{rule['alert']}.md"
        assert (out / annotations["runbook_url"]).is_file()
        assert annotations["description"].startswith("Threshold: ")
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_thresholds_follow_the_engagement(tmp_path: Path) -> None:
    def exprs(name: str, **changes: object) -> str:
        out = run_emit(write_engagement(tmp_path / name, **changes))  # type: ignore[arg-type]
        return "\n".join(a.expr for a in read(Bundle, out / "bundle.json").alerts)

    four = exprs("four")
    assert ">= 4 and deriv" in four
    assert "< 60 and" in four  # half of the 120 tokens/s that the proof measured
    eight = exprs("eight", accepted=stack(parallel=8))
    assert ">= 8 and deriv" in eight
    vllm = exprs("vllm", engine="vllm")
    assert 'le="1.0"' in vllm  # the first histogram bound that is not below the promised 0.8 s
    assert "> 0.3)" in vllm  # six times the budget of 0.05
    assert "> 0.8" in vllm


def test_slots_are_what_the_engine_said_before_what_was_asked() -> None:
    metrics = metrics_of("llama.cpp")
    assert metrics is not None
    assert metrics.slots(stack(parallel=4)) == 4
    assert metrics.slots(stack()) == 4  # llama.cpp's automatic choice
    assert metrics.slots(stack(parallel=-1)) == 4
    said = dataclasses.replace(stack(parallel=4), effective={"parallel": 2})
    assert metrics.slots(said) == 2


def test_a_promise_without_a_histogram_bound_above_it_has_no_burn_rule(tmp_path: Path) -> None:
    folder = write_engagement(tmp_path / "e", engine="vllm")
    settings = folder / "engagement.yaml"
    settings.write_text(settings.read_text().replace("p95: 0.8", "p95: 9000.0"))
    alerts = read(Bundle, run_emit(folder) / "bundle.json").alerts
    assert "LLMTimeToFirstTokenPromise" not in {a.alert for a in alerts}


def test_a_stack_without_a_metrics_page_has_no_monitoring(tmp_path: Path) -> None:
    launch = launch_of(stack(parallel=4), metrics_path=None)
    out = run_emit(write_engagement(tmp_path / "e", launch=launch))
    assert not (out / "monitoring").exists()
    assert "no metrics page" in (out / "runbook/README.md").read_text()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_table_agrees_with_what_the_kit_itself_reads(engine: str) -> None:
    metrics = metrics_of(engine)
    assert metrics is not None
    rows = {row.word: row for row in metric_rows(engine)}
    for word in ("running", "waiting", "output_tokens", "steps", "preemptions"):
        name = getattr(metrics, word)
        if name is not None:
            assert (name,) in rows[word].any_of
    if metrics.kv_usage is not None:
        assert (metrics.kv_usage,) in rows["kv_usage_ratio"].any_of


def test_both_names_of_llama_cpp_have_its_metrics() -> None:
    assert metrics_of("llama-server") == metrics_of("llama.cpp") is not None
    assert metrics_of("other") is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (45, "45s"), (90, "90s"), (300, "5m"), (7200, "2h")]
)
def test_durations_read_as_prometheus_writes_them(seconds: int, text: str) -> None:
    assert duration(seconds) == text
