"""llama-cpp-python's server, where it is installed (it compiles from source)."""

from pathlib import Path

import pytest

from teardown.engines import Launch, detect, engine_by_name
from teardown.targets import LocalTarget

pytestmark = [pytest.mark.engine, pytest.mark.logits]


def test_it_starts_runs_as_asked_and_is_recognised(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp.server.app")
    launch = Launch(
        launcher="llama-cpp-python",
        model=str(model),
        served_model="smollm2",
        options={"n_ctx": 512, "n_threads": 1, "n_batch": 64},
    )
    target = LocalTarget(engine_by_name("llama-cpp-python"), launch, tmp_path)
    try:
        target.start()
        stack = target.read_back()
        assert target.engine.mismatches(stack.options, stack.effective) == []
        assert stack.effective["n_ctx"] == 512 and stack.effective["n_batch"] == 64
        engine, found = detect(target.url)
        assert (engine.name, found.models) == ("llama-cpp-python", ["smollm2"])
        assert target.metrics_urls() == []
    finally:
        target.stop()
