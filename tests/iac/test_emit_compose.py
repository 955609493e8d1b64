"""compose.yaml by structure: there is no container engine on a test machine."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.iac.engagements import NASTY, launch_of, run_emit, stack, write_engagement


def _service(out: Path) -> dict[str, Any]:
    document = yaml.safe_load((out / "compose/compose.yaml").read_text(encoding="utf-8"))
    (service,) = document["services"].values()
    return dict(service)


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_it_is_closed_where_it_can_be(tmp_path: Path, engine: str) -> None:
    service = _service(run_emit(write_engagement(tmp_path / "e", engine=engine)))
    assert "network_mode" not in service
    assert "privileged" not in service
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["restart"].startswith("on-failure:")
    assert service["ports"][0]["host_ip"] == "127.0.0.1"
    assert ("deploy" in service) == (engine == "vllm")


@pytest.mark.parametrize(
    ("host", "address"),
    [("localhost", "127.0.0.1"), ("10.0.0.5", "10.0.0.5"), ("::1", "::1"), ("llm.example", None)],
)
def test_it_publishes_only_where_the_stack_shall_listen(
    tmp_path: Path, host: str, address: str | None
) -> None:
    service = _service(run_emit(write_engagement(tmp_path / "e", host=host)))
    assert service["ports"][0].get("host_ip") == address


def test_what_the_image_copies_is_in_the_build_context(tmp_path: Path) -> None:
    out = run_emit(write_engagement(tmp_path / "e"))
    build = _service(out)["build"]
    context = (out / "compose" / build["context"]).resolve()
    dockerfile = (context / build["dockerfile"]).read_text()
    sources = re.findall(r"^COPY (\S+) ", dockerfile, re.MULTILINE)
    assert len(sources) == 2
    ignored = (context / f"{build['dockerfile']}.dockerignore").read_text()
    for source in sources:
        assert (context / source / "start").is_file()
        assert f"!{source.split('/')[0]}" in ignored
    assert "USER llm" in dockerfile
    health = re.search(r"CMD (\[\"python3.*\])$", dockerfile, re.MULTILINE)
    assert health
    assert "/health" in json.loads(health[1])[2]


def test_rolling_back_is_a_variable(tmp_path: Path) -> None:
    out = run_emit(write_engagement(tmp_path / "e"))
    (release,) = (out / "stack").iterdir()
    assert _service(out)["environment"]["LLM_RELEASE"] == f"${{LLM_RELEASE:-{release.name}}}"


def test_the_grace_period_is_longer_than_the_drain(tmp_path: Path) -> None:
    launch = launch_of(stack(parallel=4), drain_s=42.0)
    service = _service(run_emit(write_engagement(tmp_path / "e", launch=launch)))
    assert service["stop_grace_period"] == "52s"


def test_a_clients_name_is_never_interpolated(tmp_path: Path) -> None:
    label = _service(run_emit(write_engagement(tmp_path / "e", client=NASTY)))["labels"]
    assert label["teardown.client"].replace("$$", "$") == NASTY


def test_a_program_that_no_package_installs_has_no_image(tmp_path: Path) -> None:
    launch = launch_of(stack(parallel=4), argv=["/usr/bin/llama-server", "--port", "{port}"])
    out = run_emit(write_engagement(tmp_path / "e", launch=launch))
    assert not (out / "compose").exists()
    assert "docker" not in (out / "runbook/README.md").read_text()


def test_packages_are_pinned_in_the_file_that_the_image_installs(tmp_path: Path) -> None:
    tuned = stack(parallel=4)
    launch = dataclasses.replace(launch_of(tuned), packages=["xllamacpp==2026.10.11549"])
    out = run_emit(write_engagement(tmp_path / "e", launch=launch))
    (packages,) = (out / "stack").glob("*/packages.txt")
    assert "xllamacpp==2026.10.11549" in packages.read_text().splitlines()
    install = (out / "install.sh").read_text()
    assert "-m venv" in install
