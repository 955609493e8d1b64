"""Opening a target from settings, and the kinds that own no process."""

from pathlib import Path
from typing import Any

import pytest

from teardown.engagement import Engagement
from teardown.errors import EngineFailed, FeatureMissing, TargetError, UsageError
from teardown.settings import Access, LaunchSettings, Settings, TargetSettings
from teardown.targets import EndpointTarget, LocalTarget, ManualTarget, make_target
from tests.engines.pages import models, pages


def opened(tmp_path: Path, access: Access | None = None, **target: Any) -> Any:
    settings = Settings(client="c", target=TargetSettings(**target), access=access or Access())
    return make_target(settings, Engagement(tmp_path))


def test_each_kind_opens_its_target(tmp_path: Path) -> None:
    launch = LaunchSettings(launcher="vllm", model="/models/Big", options={"max-num-seqs": 8})
    local = opened(tmp_path, kind="local", url="http://127.0.0.1:8123/v1", launch=launch)
    assert isinstance(local, LocalTarget)
    assert (local.url, local.model) == ("http://127.0.0.1:8123/v1", "Big")
    assert isinstance(opened(tmp_path, kind="endpoint", url="http://h/v1"), EndpointTarget)
    assert isinstance(opened(tmp_path, kind="manual", url="http://h/v1/"), ManualTarget)
    for kind in ("ssh", "kubectl"):
        with pytest.raises(FeatureMissing, match=f"{kind} is not there yet"):
            opened(tmp_path, kind=kind, url="http://h/v1")


def test_the_embedded_model_is_served_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "SmolLM2.gguf"
    monkeypatch.setattr("teardown.targets.open.embedded_model", lambda _: model)
    for name in (None, "smollm2"):
        local = opened(tmp_path, kind="local", launch=LaunchSettings(model=name))
        assert local.model == "smollm2"
        assert local.original().model == str(model)
        assert local.url.endswith("/v1")


def test_a_relative_model_is_looked_for_in_the_engagement(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    local = opened(tmp_path, kind="local", launch=LaunchSettings(model="m.gguf"))
    assert local.original().model == str(tmp_path / "m.gguf")
    assert local.model == "m"


def test_an_address_of_the_newer_kind_is_bracketed(tmp_path: Path) -> None:
    launch = LaunchSettings(launcher="vllm", model="m")
    local = opened(tmp_path, kind="local", url="http://[::1]:8123/v1", launch=launch)
    assert (local.url, local.host) == ("http://[::1]:8123/v1", "::1")


def test_wrong_settings_are_refused_with_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(UsageError, match="end in /v1"):
        opened(tmp_path, kind="endpoint", url="http://h:80")
    with pytest.raises(UsageError, match="MY_KEY has no API key"):
        opened(tmp_path, kind="endpoint", url="http://h/v1", api_key_env="MY_KEY")
    with pytest.raises(UsageError, match=r"starts 'llama\.cpp'"):
        opened(tmp_path, kind="local", engine="vllm", launch=LaunchSettings())


def test_an_endpoint_is_checked_for_the_model_and_never_changed() -> None:
    with pages({"/v1/models": models("vllm", "llama-3", max_model_len=4096)}) as url:
        target = EndpointTarget(url, "lama-3")
        with pytest.raises(TargetError, match="did you mean 'llama-3'"):
            target.start()
        target = EndpointTarget(url, "")
        target.start()
        stack = target.read_back()
        assert (stack.engine, stack.launcher, stack.model) == ("vllm", "external", "llama-3")
        assert stack.effective == {"max-model-len": 4096}
        assert target.metrics_urls() == [url.removesuffix("/v1") + "/metrics"]
        with pytest.raises(FeatureMissing, match="kind is endpoint"):
            target.apply({})
        target.restore()
        target.stop()


def test_metrics_pages_are_those_granted_and_named() -> None:
    with pages({"/v1/models": models("vllm", "m")}) as url:
        assert EndpointTarget(url, "m", access=Access(metrics="none")).metrics_urls() == []
        named = ["http://a/metrics", "http://b/metrics"]
        assert EndpointTarget(url, "m", metrics=named).metrics_urls() == named
        assert EndpointTarget(url, "m", metrics="none").metrics_urls() == []
    with pages({"/v1/models": models("someone", "m")}) as url:
        assert EndpointTarget(url, "m").metrics_urls() == []


def test_an_endpoint_of_another_engine_than_named_is_said(tmp_path: Path) -> None:
    with pages({"/v1/models": models("me", "m")}) as url:
        target = opened(tmp_path, kind="endpoint", url=url, model="m", engine="vllm")
        with pytest.raises(TargetError, match=r"set target\.engine to 'llama-cpp-python' or auto"):
            target.start()


def test_an_endpoint_that_is_not_there_is_said() -> None:
    with pytest.raises(TargetError, match="check the address"):
        EndpointTarget("http://127.0.0.1:9/v1", "m").start()


def test_the_operator_is_told_the_change_and_the_stack_is_read_back() -> None:
    answers = {"/v1/models": models("vllm", "m", max_model_len=4096)}
    told: list[str] = []

    def operator(_question: str) -> str:
        length = 8192 if "4096 -> 8192" in told[-1] else 4096
        answers["/v1/models"] = models("vllm", "m", max_model_len=length)
        return ""

    with pages(answers) as url:
        target = ManualTarget(
            EndpointTarget(url, "m"), {"max-model-len": 4096}, tell=told.append, ask=operator
        )
        target.apply({"max-model-len": 4096})
        assert told == []
        target.apply({"max-model-len": 8192, "enforce-eager": True})
        assert "max-model-len: 4096 -> 8192" in told[0]
        assert "enforce-eager: (engine's default) -> true" in told[0]
        assert target.read_back().effective["max-model-len"] == 8192
        assert target.read_back().options["enforce-eager"] is True
        target.restore()
        assert target.read_back().effective["max-model-len"] == 4096


def test_an_operator_who_does_otherwise_or_refuses_is_noticed() -> None:
    with pages({"/v1/models": models("vllm", "m", max_model_len=4096)}) as url:
        answer = ""
        target = ManualTarget(
            EndpointTarget(url, "m"),
            {"max-model-len": 4096},
            tell=lambda _: None,
            ask=lambda _: answer,
        )
        with pytest.raises(EngineFailed, match="asked as 8192 but runs as 4096"):
            target.apply({"max-model-len": 8192})
        answer = "no"
        with pytest.raises(EngineFailed, match="left the options"):
            target.apply({"max-model-len": 8192})
        assert target.read_back().options == {"max-model-len": 4096}


def test_a_manual_stack_needs_rights_and_somebody_to_answer() -> None:
    endpoint = EndpointTarget("http://127.0.0.1:9/v1", "m")
    with pytest.raises(FeatureMissing, match="needs somebody to answer"):
        ManualTarget(endpoint, {}).apply({"a": 1})
    with pytest.raises(FeatureMissing, match=r"access\.restart is never"):
        ManualTarget(endpoint, {}, access=Access(restart="never")).apply({"a": 1})
