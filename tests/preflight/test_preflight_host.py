"""What this host does to a measurement, each fault by a number given."""

import resource
from pathlib import Path
from typing import Any

import pytest
import yaml

from teardown.engagement import Engagement
from teardown.load.probe import ProbeReport
from teardown.preflight import host, rights
from teardown.settings import Access, parse_settings

BUSY = {"user": 50.0, "steal": 0.0, "idle": 50.0}


def row(load: float | None, cpu_s: dict[str, float] | None) -> dict[str, Any]:
    return {"load_1min": load, "host_cpu_s": cpu_s}


def report(**more: Any) -> ProbeReport:
    fields: dict[str, Any] = {
        "replies": [],
        "elapsed_s": 3.0,
        "clock_moved_s": 0.0,
        "num_reads": 40,
        "lag_p50_s": 0.0001,
        "lag_max_s": 0.002,
        "priority": "default",
        "num_connections": 1,
    }
    return ProbeReport(**fields | more)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))


@pytest.mark.usefixtures("limited")
def test_the_hard_limit_of_files_is_held_against_the_largest_load() -> None:
    assert host.files(None).text == "limit 1024"
    assert host.files(900).level == "ok"
    found = host.files(1000)
    assert (found.level, "needs 1064" in found.text) == ("fail", True)


def test_the_largest_load_is_that_of_any_workload() -> None:
    text = yaml.safe_dump(
        {
            "client": "c",
            "target": {"kind": "endpoint", "url": "http://h/v1"},
            "workloads": [
                {"name": "a", "kind": "closed", "prompts": "p", "concurrency": 8},
                {"name": "b", "kind": "closed", "prompts": "p", "concurrency": 300},
            ],
        }
    )
    assert rights.largest_concurrency(parse_settings(text)) == 300


@pytest.fixture
def governed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    facts: dict[str, Any] = {"cpu_affinity": 2, "governor": None}
    monkeypatch.setattr(host, "host_facts", lambda: facts)
    return facts


def test_an_idle_host_is_good(governed: dict[str, Any]) -> None:
    after = {"user": 51.0, "steal": 0.0, "idle": 59.0}
    found = host.processor(row(0.4, BUSY), row(0.5, after))
    assert (found.level, found.text) == ("ok", "2 for the client, load average 0.5, 0.0% stolen")


def test_other_work_stolen_time_and_a_slow_governor_are_named(governed: dict[str, Any]) -> None:
    assert "load average 6.0" in host.processor(row(6.0, None), row(6.0, None)).text
    after = {"user": 55.0, "steal": 1.0, "idle": 54.0}
    found = host.processor(row(0.1, BUSY), row(0.1, after))
    assert (found.level, "10% of the time is stolen" in found.text) == ("warn", True)
    governed["governor"] = "powersave"
    found = host.processor(row(0.1, None), row(0.1, None))
    assert (found.level, "cpupower" in found.fix) == ("warn", True)
    governed["governor"] = "performance"
    assert host.processor(row(0.1, None), row(None, None)).level == "ok"


def test_a_clock_that_moves_is_a_warning_and_then_a_failure() -> None:
    assert host.clock(report()).level == "ok"
    assert host.clock(report(clock_moved_s=0.002)).level == "warn"
    assert host.clock(report(clock_moved_s=0.060)).level == "fail"


def test_a_kernel_without_stamps_is_a_warning() -> None:
    found = host.clock(report(lag_p50_s=None, lag_max_s=None))
    assert (found.level, "no kernel receive stamps" in found.text) == ("warn", True)
    found = host.clock(report(lag_p50_s=None, lag_max_s=None, num_reads=0))
    assert (found.level, "nothing was received" in found.text) == ("ok", True)


def test_a_proxy_of_the_environment_is_shown_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert host.proxy("http://gateway/v1").level == "ok"
    monkeypatch.setenv("http_proxy", "http://me:secret@proxy:3128")
    found = host.proxy("http://gateway:8000/v1")
    assert (found.level, "go through proxy:3128" in found.text) == ("warn", True)
    assert "secret" not in found.text
    assert found.fix == "export NO_PROXY=gateway"
    assert host.proxy("http://127.0.0.1:8000/v1").level == "ok"
    assert host.proxy("https://gateway/v1").level == "ok"
    monkeypatch.setenv("https_proxy", "socks5://me:secret@proxy:1080")
    found = host.proxy("https://gateway/v1")
    assert (found.level, "secret" not in found.text) == ("fail", True)
    monkeypatch.setenv("no_proxy", "gateway")
    assert host.proxy("http://gateway:8000/v1").level == "ok"


def test_every_right_that_is_missing_has_its_price() -> None:
    found = rights.rights(Access(metrics="none", logs="none", host="none", restart="never"))
    assert [f.level for f in found] == ["warn"] * 4
    assert all(rights.COSTS[f.name.removeprefix("access.")] in f.text for f in found)
    assert {f.text for f in rights.rights(Access())} == {"granted"}


def test_the_tokenizer_of_a_local_model_is_found(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "tokenizer.json").write_text("{}")
    (tmp_path / "m.gguf").write_text("")

    def found(model: str | None) -> str | None:
        launch = {"with": "vllm", "model": model}
        text = yaml.safe_dump({"client": "c", "target": {"kind": "local", "launch": launch}})
        return rights.local_tokenizer(parse_settings(text), Engagement(tmp_path))

    assert found("hf") == "hf/tokenizer.json"
    assert found("m.gguf") == "m.gguf"
    assert found("meta/llama") is None
    assert found(None) is None
