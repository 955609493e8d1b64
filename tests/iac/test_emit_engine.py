"""The real engine, started by what was emitted for it: tuned, then rolled back."""

import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest

from teardown.engines import EMBEDDED_NAME, Launch, engine_for_launcher
from teardown.engines.embedded import MEMBER, cache_dir
from teardown.records import Options
from tests.iac.engagements import free_port, get, run_emit, sh, stack, write_engagement

MODEL = cache_dir() / Path(MEMBER).name
BASE: Options = {"ctx-size": 2048, "threads": 1, "cache-ram": 0}


def _need_engine() -> None:
    pytest.importorskip("xllamacpp")
    if not MODEL.is_file():
        pytest.skip(f"the embedded model is not in {MODEL.parent}; `teardown demo` fetches it")


@pytest.mark.engine
def test_the_emitted_supervisor_serves_the_tuned_stack_and_the_old_one(tmp_path: Path) -> None:
    _need_engine()
    port = free_port()
    before, after = BASE | {"parallel": 1}, BASE | {"parallel": 4}
    tuned = Launch(
        launcher="xllamacpp", model=str(MODEL), served_model=EMBEDDED_NAME, options=after
    )
    names = {"model": str(MODEL), "served_model": EMBEDDED_NAME}
    folder = write_engagement(
        tmp_path / "e",
        original=dataclasses.replace(stack(**before), **names),
        accepted=dataclasses.replace(stack(**after), **names),
        launch=engine_for_launcher("xllamacpp").launch_spec(tuned),
        port=port,
        install_dir=str(tmp_path / "srv" / "llm"),
    )
    out = run_emit(folder)
    # packages are not installed here: the venv of the tests has the engine
    env = dict(os.environ) | {"LLM_PYTHON": sys.executable, "LLM_MODEL": str(MODEL)}
    script = str(out / "supervisor/run.sh")
    (previous,) = (out / "rollback").iterdir()
    try:
        code, text = sh("sh", script, "start", env=env)
        assert code == 0, text
        assert json.loads(get(port, "/props"))["total_slots"] == 4
        assert "llamacpp:requests_deferred" in get(port, "/metrics")
        assert EMBEDDED_NAME in get(port, "/v1/models")
        (out / "current").symlink_to(Path("rollback") / previous.name)
        code, text = sh("sh", script, "restart", env=env)
        assert code == 0, text
        assert json.loads(get(port, "/props"))["total_slots"] == 1
    finally:
        assert sh("sh", script, "stop", env=env)[0] == 0


@pytest.mark.parametrize("launcher", ["xllamacpp", "vllm", "llama-server", "llama-cpp-python"])
def test_every_engine_that_the_kit_starts_can_be_emitted_and_rolled_back(
    tmp_path: Path, launcher: str
) -> None:
    options: dict[str, tuple[Options, Options]] = {
        "vllm": (
            {"max-num-seqs": 8, "enforce-eager": True, "cudagraph-capture-sizes": "1 2 4"},
            {"max-num-seqs": 64, "kv-cache-dtype": "fp8", "enable-prefix-caching": True},
        ),
        "llama-cpp-python": ({"n_ctx": 512}, {"n_ctx": 2048}),
    }
    before, after = options.get(
        launcher,
        (
            {"parallel": 1, "cache-prompt": False, "flash-attn": True},
            {"parallel": 4, "cache-prompt": True, "flash-attn": False},
        ),
    )
    engine = engine_for_launcher(launcher)

    def spec(chosen: Options) -> object:
        launch = Launch(launcher=launcher, model="m.gguf", served_model="m", options=chosen)
        return engine.launch_spec(launch)

    def of(chosen: Options) -> object:
        return dataclasses.replace(
            stack(), engine=engine.name, launcher=launcher, model="m.gguf", options=chosen
        )

    folder = write_engagement(
        tmp_path / "e",
        original=of(before),  # type: ignore[arg-type]
        accepted=of(after),  # type: ignore[arg-type]
        launch=spec(after),  # type: ignore[arg-type]
    )
    out = run_emit(folder)
    (old,) = (out / "rollback").iterdir()
    expected = spec(before)
    command = (old / "start").read_text().splitlines()[-1]
    for word in expected.argv:  # type: ignore[attr-defined]
        if "{" not in word:
            assert word in command
    for name, text in expected.files.items():  # type: ignore[attr-defined]
        if name.endswith(".json"):
            assert json.loads((old / name).read_text()) == json.loads(text)
