import importlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from teardown.engines import Launch, engine_by_name, llamacpp_log
from teardown.engines.llamacpp import LlamaCpp, rounded_context, server_flags
from teardown.engines.serve_xllamacpp import OPTIONS
from teardown.errors import FeatureMissing, UsageError

LOG = """\
0.1 I cmn  common_param: system_info: n_threads = 2 (n_threads_batch = 1) / 2 | CPU : AVX = 1 |
0.4 I llama_context: n_seq_max             = 3
0.4 I llama_context: n_ctx                 = 1536
0.4 I llama_context: n_ctx_seq             = 512
0.4 I llama_context: n_batch               = 1000
0.4 I llama_context: n_ubatch              = 512
0.4 I llama_context: flash_attn            = auto
0.4 I llama_context: kv_unified            = false
0.4 I llama_kv_cache: size =   13.71 MiB (   512 cells,  30 layers,  3/3 seqs), \
K (q8_0):    8.96 MiB, V (q4_0):    4.75 MiB
0.4 I resolve_fused_ops: Flash Attention enabled
0.9 I srv    load_model: prompt cache is enabled, size limit: 8192 MiB
0.9 I srv    load_model: context checkpoints enabled, max = 32, min spacing = 8192
0.9 I spec common_specu: no implementations specified for speculative decoding
1.0 I llama_context: n_ctx                 = 99
"""


def launch(launcher: str = "xllamacpp", binary: str | None = None, **options: object) -> Launch:
    mark = "_" if launcher == "llama-cpp-python" else "-"
    named = {name.replace("_", mark): value for name, value in options.items()}
    return Launch(
        launcher=launcher,
        model="/models/m.gguf",
        served_model="m",
        options=named,  # type: ignore[arg-type] # tests pass wrong ones too
        binary=binary,
    )


def test_the_log_says_what_runs_and_the_first_context_counts() -> None:
    assert llamacpp_log.options(LOG) == {
        "parallel": 3,
        "ctx-size": 1536,
        "batch-size": 1000,
        "ubatch-size": 512,
        "flash-attn": "on",
        "kv-unified": False,
        "cache-type-k": "q8_0",
        "cache-type-v": "q4_0",
        "kv-cache-mib": 13.71,
        "threads": 2,
        "threads-batch": 1,
        "ctx-checkpoints": 32,
        "cache-ram": 8192,
        "spec-type": "none",
    }
    assert llamacpp_log.options("") == {}


@pytest.mark.parametrize(
    ("ctx", "slots", "unified", "total"),
    [(1000, 3, False, 1536), (1000, 1, False, 1024), (1000, 3, True, 1024), (4096, 8, False, 4096)],
)
def test_the_context_is_rounded_as_llama_cpp_rounds(
    ctx: int, slots: int, unified: bool, total: int
) -> None:
    assert rounded_context(ctx, {"parallel": slots, "kv-unified": unified}) == total


def test_what_rounding_explains_is_no_mismatch_and_the_rest_is() -> None:
    engine, runs = LlamaCpp(), llamacpp_log.options(LOG)
    asked = {
        "parallel": 3,
        "ctx-size": 1000,
        "batch-size": 2048,
        "threads": -1,
        "flash-attn": "auto",
        "cache-prompt": False,
        "cache-type-k": "q8_0",
        "ubatch-size": None,
    }
    assert engine.mismatches(asked, runs) == []
    assert engine.mismatches({"cache-type-k": "q4_0", "parallel": 4}, runs) == [
        "cache-type-k was asked as q4_0 but runs as q8_0",
        "parallel was asked as 4 but runs as 3",
    ]
    assert engine.mismatches({"ubatch-size": 4096}, {"ubatch-size": 2048}) == []
    assert engine.mismatches({"batch-size": 4096}, {"batch-size": 4096}) == []
    assert len(engine.mismatches({"flash-attn": "off", "ctx-size": 4096}, runs)) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0.4 E llama_init_from_model: quantized V cache requires flash_attn to be", "flash-attn"),
        ("serve: port 8080 on 127.0.0.1 cannot be used: Address already in use", "port 8080"),
        ("0.0 E gguf_init_from_reader: failed to read header", "not a whole GGUF file"),
        ("0.0 E gguf_init_from_file_impl: invalid magic characters: 'abcd'", "not a GGUF file"),
        ("ggml_backend_cuda: cudaMalloc failed: out of memory", "out of memory"),
        ("error: invalid argument: --draft-max", "invalid argument: --draft-max"),
        ("0.0 E srv          init: exiting due to model loading error", "exiting due to model"),
    ],
)
def test_a_failed_start_is_explained(line: str, reason: str) -> None:
    last = "serve: the engine did not start: Failed to init server, check the input params."
    assert reason in (LlamaCpp().startup_error(f"{LOG}{line}\n{last}\n") or "")


def test_a_good_log_explains_nothing() -> None:
    assert LlamaCpp().startup_error(LOG + "serve: ready on 127.0.0.1 port 1\n") is None


def test_an_unknown_option_is_refused_with_the_nearest(tmp_path: Path) -> None:
    for call in (
        lambda: LlamaCpp().command(launch(paralel=1), host="h", port=1, workdir=tmp_path),
        lambda: LlamaCpp().launch_spec(launch(paralel=1)),
    ):
        with pytest.raises(UsageError, match="did you mean 'parallel'"):
            call()


def test_the_emitted_start_is_the_serve_program_with_placeholders() -> None:
    pytest.importorskip("xllamacpp")
    spec = LlamaCpp().launch_spec(launch(parallel=2, cache_type_k="q8_0"))
    assert spec.argv == ["{python}", "{root}/serve.py", "{root}/engine.json"]
    config = json.loads(spec.files["engine.json"])
    assert (config["model"], config["host"], config["port"]) == ("{model}", "{host}", "{port}")
    assert config["options"] == {"parallel": 2, "cache-type-k": "q8_0"}
    assert "teardown" not in spec.files["serve.py"].partition('"""')[2].partition('"""')[2]
    assert spec.packages[0].startswith("xllamacpp==2026.")
    assert (spec.health_path, spec.metrics_path) == ("/health", "/metrics")


def test_llama_server_gets_the_same_options_as_flags(tmp_path: Path) -> None:
    asked = launch("llama-server", "/bin/llama-server", parallel=2, flash_attn="on")
    command = LlamaCpp().command(asked, host="h", port=1, workdir=tmp_path)
    assert command.argv[:3] == ["/bin/llama-server", "--model", "/models/m.gguf"]
    assert command.argv[-4:] == ["--parallel", "2", "--flash-attn", "on"]
    assert server_flags({"cache-prompt": False, "kv-unified": True, "metrics": False}) == [
        *("--log-verbosity", "4", "--no-cache-prompt", "--kv-unified")
    ]
    assert server_flags({"fit": False, "mlock": True})[-3:] == ["--fit", "off", "--mlock"]


def test_a_missing_llama_server_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FeatureMissing, match="no `llama-server` on PATH"):
        LlamaCpp().command(launch("llama-server"), host="h", port=1, workdir=tmp_path)


def test_old_pages_without_cached_tokens_leave_them_unknown() -> None:
    page = "llamacpp:prompt_tokens_total 5\nllamacpp:n_busy_slots_per_decode -nan\n"
    for text in (page, json.dumps(page)):  # some builds quote the page
        found = LlamaCpp().counters(text)
        assert (found.prompt_tokens, found.cached_tokens, found.queried_tokens) == (5, None, None)
    page += "llamacpp:prompt_tokens_cached_total 7\n"
    assert LlamaCpp().counters(page).prompt_tokens == 12


def test_llama_cpp_python_has_its_own_names_and_no_metrics(tmp_path: Path) -> None:
    engine = engine_by_name("llama-cpp-python")
    asked = launch("llama-cpp-python", "python", n_ctx=2048, flash_attn=True)
    command = engine.command(asked, host="h", port=1, workdir=tmp_path)
    assert command.argv[:3] == ["python", "-m", "llama_cpp.server"]
    assert command.argv[-4:] == ["--n_ctx", "2048", "--flash_attn", "true"]
    found = engine.effective(asked, "http://127.0.0.1:9/v1", LOG)
    assert found["type_k"] == 8 and found["flash_attn"] is True
    assert engine.mismatches({"n_ctx": 1500, "type_v": 1}, found) == [
        "type_v was asked as 1 but runs as 2"
    ]
    assert engine.metrics_url("http://h/v1") is None
    assert set(asdict(engine.counters("")).values()) == {None}
    with pytest.raises(UsageError, match="did you mean 'n_ctx'"):
        engine.command(launch("llama-cpp-python", n_ctxx=1), host="h", port=1, workdir=tmp_path)


def test_importing_the_engines_imports_none_of_them() -> None:
    code = (
        "import sys, teardown.engines, teardown.targets; "
        "print([m for m in ('xllamacpp', 'vllm', 'llama_cpp', 'prometheus_client') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_option_of_the_serve_program_is_an_attribute() -> None:
    pytest.importorskip("xllamacpp")
    params = importlib.import_module("xllamacpp").CommonParams()
    for path, _ in OPTIONS.values():
        holder = params
        for name in path.split("."):
            holder = getattr(holder, name)
