import gzip
from pathlib import Path

import pytest

from teardown.engines import ENGINES, detect, engine_by_name, engine_for_launcher
from teardown.errors import TargetError, UsageError
from tests.engines.pages import models, pages

RECORDINGS = Path(__file__).parent.parent / "recordings" / "vllm-0.26-h200"


def test_vllm_is_known_by_its_models_owner_and_tells_version_and_cache() -> None:
    metrics = gzip.decompress((RECORDINGS / "weights_c8" / "metrics_after.txt.gz").read_bytes())
    answers = {
        "/v1/models": models("vllm", "m", max_model_len=16384),
        "/version": {"version": "0.26.0"},
        "/metrics": metrics.decode(),
    }
    with pages(answers) as url:
        engine, found = detect(url)
    assert (engine.name, found.version, found.models) == ("vllm", "0.26.0", ["m"])
    assert found.options["max-model-len"] == 16384
    assert found.options["enable-prefix-caching"] is True
    assert found.options["block-size"] == 16
    assert found.options["gpu-memory-utilization"] == 0.92


def test_vllm_under_another_owner_is_known_by_its_metrics() -> None:
    answers = {
        "/v1/models": models("my-company", "m"),
        "/version": {"version": "0.33.0"},
        "/metrics": 'vllm:num_requests_running{engine="0"} 0\n',
    }
    with pages(answers) as url:
        engine, found = detect(url)
    assert (engine.name, found.version) == ("vllm", "0.33.0")


def test_a_version_page_alone_makes_no_vllm() -> None:
    answers = {"/v1/models": models("sglang", "m"), "/version": {"version": "1"}}
    with pages(answers) as url:
        engine, found = detect(url)
    assert engine.name == "openai"
    assert "sglang" in found.because


def test_llama_cpp_python_is_known_by_its_owner() -> None:
    with pages({"/v1/models": models("me", "m")}) as url:
        assert detect(url)[0].name == "llama-cpp-python"


def test_llama_cpp_behind_a_key_is_known_by_its_owner() -> None:
    with pages({"/v1/models": models("llamacpp", "m")}) as url:
        engine, found = detect(url)
    assert (engine.name, found.options) == ("llama.cpp", {})


@pytest.mark.parametrize("answers", [{}, {"/v1/models": "hello"}, {"/v1/models": {"data": 3}}])
def test_a_server_without_a_list_of_models_is_refused_with_what_to_check(answers: dict) -> None:
    with pages(answers) as url, pytest.raises(TargetError, match="ends in /v1"):
        detect(url)


def test_names_of_engines_and_launchers_are_corrected() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'llama\.cpp'"):
        engine_by_name("llama-cpp")
    with pytest.raises(UsageError, match="did you mean 'xllamacpp'"):
        engine_for_launcher("xllamacp")
    assert {name: engine_by_name(name).name for name in ENGINES} == {n: n for n in ENGINES}
    assert engine_for_launcher("llama-server").name == "llama.cpp"
