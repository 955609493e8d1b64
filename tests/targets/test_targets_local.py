"""A local target on the real embedded engine."""

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from teardown.engines import Launch, detect, engine_for_launcher
from teardown.engines.llamacpp import LlamaCpp
from teardown.errors import EngineFailed, FeatureMissing, UsageError
from teardown.http import fetch, post_json
from teardown.records import Options
from teardown.settings import Access
from teardown.targets import LocalTarget

pytestmark = pytest.mark.engine

# One thread: two engines with spinning threads on a busy host starve each other.
BASE: Options = {"threads": 1, "ctx-size": 512, "warmup": False, "cache-ram": 0}
DEADLINE_S = 20


def target_of(model: Path, folder: Path, options: Options, **named: object) -> LocalTarget:
    launch = Launch(launcher="xllamacpp", model=str(model), served_model="smollm2", options=options)
    engine = engine_for_launcher("xllamacpp")
    return LocalTarget(engine, launch, folder, **named)  # type: ignore[arg-type]


@pytest.fixture
def target(model: Path, tmp_path: Path) -> Iterator[LocalTarget]:
    one = target_of(model, tmp_path, BASE)
    one.start()
    yield one
    one.stop()


def wait_for_end(pid: int) -> bool:
    """Return True once process `pid` has ended, False after the deadline."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], DEADLINE_S)[0])
    finally:
        os.close(handle)


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        (
            {"parallel": 3, "ctx-size": 1000, "cache-type-k": "q8_0", "cache-type-v": "q4_0"},
            {
                "parallel": 3,
                "ctx-size": 1536,
                "ctx-size-per-slot": 512,
                "cache-type-k": "q8_0",
                "cache-type-v": "q4_0",
                "flash-attn": "on",
            },
        ),
        (
            {"parallel": 1, "flash-attn": "off", "batch-size": 64, "ubatch-size": 32},
            {
                "parallel": 1,
                "ctx-size": 512,
                "flash-attn": "off",
                "batch-size": 64,
                "ubatch-size": 32,
                "cache-type-k": "f16",
                "cache-ram": 0,
                "kv-unified": False,
            },
        ),
        (
            {"parallel": 8, "kv-unified": True, "cache-ram": 100, "metrics": False},
            {"parallel": 8, "ctx-size": 512, "kv-unified": True, "cache-ram": 100},
        ),
    ],
)
def test_what_is_asked_is_what_runs(
    model: Path, tmp_path: Path, asked: Options, runs: Options
) -> None:
    target = target_of(model, tmp_path, BASE | asked)
    try:
        target.start()
        stack = target.read_back()
        assert stack.effective.items() >= (runs | {"threads": 1}).items()
        assert stack.options == BASE | asked
        assert target.engine.mismatches(stack.options, stack.effective) == []
        assert bool(target.metrics_urls()) == (asked.get("metrics") is not False)
    finally:
        target.stop()


def test_a_change_runs_the_same_options_do_not_restart_and_the_original_returns(
    target: LocalTarget,
) -> None:
    first = target.pid()
    target.apply(dict(BASE))
    assert target.pid() == first
    target.apply(BASE | {"parallel": 3})
    assert target.pid() != first
    assert target.read_back().effective["parallel"] == 3
    target.restore()
    target.restore()
    assert target.read_back().options == BASE == target.original().options
    assert target.read_back().effective["parallel"] == 1


def test_a_quantised_v_cache_without_flash_attention_is_refused_and_the_former_runs_on(
    target: LocalTarget,
) -> None:
    with pytest.raises(EngineFailed, match="quantised V cache needs flash attention"):
        target.apply(BASE | {"cache-type-v": "q4_0", "flash-attn": "off"})
    assert target.died() is None
    assert target.read_back().options == BASE
    assert detect(target.url)[1].models == ["smollm2"]


def test_an_engine_that_runs_otherwise_is_refused_and_the_former_runs_on(
    target: LocalTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        LlamaCpp, "mismatches", lambda *_: ["parallel was asked as 2 but runs as 1"]
    )
    with pytest.raises(EngineFailed, match="does not run as asked: parallel"):
        target.apply(BASE | {"parallel": 2})
    assert target.read_back().options == BASE and target.died() is None


def test_an_unknown_option_costs_no_restart(target: LocalTarget) -> None:
    first = target.pid()
    with pytest.raises(UsageError, match="did you mean 'parallel'"):
        target.apply(BASE | {"paralel": 2})
    assert target.pid() == first and target.present == BASE


def test_the_page_counts_what_was_asked_and_what_came_from_the_cache(target: LocalTarget) -> None:
    body = {"model": "smollm2", "prompt": "A harbour town " * 20, "max_tokens": 3}
    for _ in range(2):
        post_json(f"{target.url}/completions", body)
    found = target.engine.counters(fetch(target.metrics_urls()[0]))
    assert found.prompt_tokens == found.queried_tokens and found.prompt_tokens > 80
    assert found.cached_tokens and found.cached_tokens > 30
    assert found.output_tokens == 6 and found.steps and found.steps >= 4
    assert (found.running, found.waiting, found.requests) == (0, 0, None)


def test_a_death_in_mid_run_is_noticed_and_a_start_brings_it_back(target: LocalTarget) -> None:
    assert target.died() is None
    pid = target.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_for_end(pid)
    target._process._guard.wait(DEADLINE_S)  # type: ignore[union-attr]
    assert f"(process {pid}) was ended by signal 9" in (target.died() or "")
    target.start()
    assert target.died() is None and target.pid() != pid


def test_a_port_in_use_is_said(model: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        target = target_of(model, tmp_path, BASE, port=port)
        with pytest.raises(EngineFailed, match=f"port {port} on 127.0.0.1 cannot be used"):
            target.start()
    assert target.pid() is None


def test_a_file_that_is_no_model_is_said(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"PK\x03\x04 and more")
    with pytest.raises(EngineFailed, match="is not a GGUF file"):
        target_of(wrong, tmp_path, BASE).start()
    wrong.write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(EngineFailed, match="did not start: "):
        target_of(wrong, tmp_path, BASE).start()
    with pytest.raises(EngineFailed, match="No such file"):
        target_of(tmp_path / "none.gguf", tmp_path, BASE).start()


def test_what_is_not_granted_is_not_done(model: Path, tmp_path: Path) -> None:
    access = Access(metrics="none", logs="none", host="none", restart="never")
    target = target_of(model, tmp_path, BASE, access=access)
    try:
        target.start()
        assert (target.metrics_urls(), target.log_text(), target.log_path()) == ([], "", None)
        assert target.pid() is None and not target.can_restart
        with pytest.raises(FeatureMissing, match=r"access\.restart is never"):
            target.apply(BASE | {"parallel": 2})
    finally:
        target.stop()


def test_no_engine_outlives_a_killed_kit_and_the_next_one_finds_the_original_options(
    model: Path, tmp_path: Path
) -> None:
    code = f"""
        import sys
        from pathlib import Path
        from tests.targets.test_targets_local import BASE, target_of
        target = target_of(Path({str(model)!r}), Path({str(tmp_path)!r}), BASE)
        target.start()
        target.apply(BASE | {{"parallel": 2}})
        print(target.pid(), flush=True)
        sys.stdin.read()
    """
    kit = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with kit:
        assert kit.stdout is not None
        engine = int(kit.stdout.readline())
        kit.kill()
    assert wait_for_end(engine)
    target = target_of(model, tmp_path, BASE)
    assert target.recover() == ["put the original options back: parallel 2 -> null"]
    assert target.recover() == []
    try:
        target.start()
        assert target.read_back().effective["parallel"] == 1
    finally:
        target.stop()
