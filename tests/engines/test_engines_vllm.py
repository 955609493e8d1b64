import gzip
from pathlib import Path

import pytest

from teardown.engines import Launch
from teardown.engines.vllm import Vllm, flags
from teardown.errors import UsageError

RECORDINGS = Path(__file__).parent.parent / "recordings" / "vllm-0.26-h200"
NOWHERE = "http://127.0.0.1:9/v1"  # the discard port: nothing answers


def text(run: str, name: str) -> str:
    return gzip.decompress((RECORDINGS / run / name).read_bytes()).decode()


def launch(**options: bool | int | float | str | None) -> Launch:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return Launch(launcher="vllm", model="big", served_model="m", options=named)


def effective(run: str) -> dict:
    return Vllm().effective(launch(), NOWHERE, text(run, "startup.log.gz"))


def test_the_log_of_an_eager_start_says_what_runs() -> None:
    found = effective("host_eager_c4")
    assert found["enforce-eager"] is True
    assert found["max-model-len"] == 16384
    assert found["load-format"] == "dummy"
    assert found["max-num-batched-tokens"] == 8192
    assert found["dtype"] == "bfloat16"
    assert found["kv-cache-size-tokens"] == 817584
    assert found["max-concurrency"] == 49.9
    assert found["async-scheduling"] is True
    assert found["cudagraph-mode"] == "NONE"
    assert found["attention-backend-in-use"] == "FLASH_ATTN"


def test_the_log_of_a_capped_start_says_the_cap_and_the_graphs() -> None:
    found = effective("sched_seqs8_c64")
    assert found["max-num-seqs"] == 8
    assert found["cudagraph-capture-sizes"] == "1 2 4 8 16"
    assert found["max-cudagraph-capture-size"] == 16
    assert found["cudagraph-mode"] == "FULL_AND_PIECEWISE"
    assert effective("kvcap_2g_c48")["kv-cache-memory-bytes"] == 2 * 2**30


def test_the_version_comes_from_the_log() -> None:
    assert Vllm().version(launch(), text("weights_c8", "startup.log.gz")) == "0.26.0"


def test_asked_in_words_and_run_in_numbers_is_no_mismatch() -> None:
    found = {**effective("kvcap_2g_c48")}
    asked = {
        "kv-cache-memory-bytes": "2G",
        "max-model-len": 4096,
        "dtype": "auto",
        "gpu-memory-utilization": 0.9,
        "enforce-eager": False,
    }
    assert Vllm().mismatches(asked, found) == []
    assert Vllm().mismatches({"max-model-len": 8192}, found) == [
        "max-model-len was asked as 8192 but runs as 4096"
    ]


def test_graph_sizes_that_were_cut_are_a_mismatch() -> None:
    asked = {"cudagraph-capture-sizes": "1 2 4 8 16 20"}
    assert len(Vllm().mismatches(asked, effective("sched_seqs8_c64"))) == 1
    asked = {"cudagraph-capture-sizes": "16 8 4 2 1"}
    assert Vllm().mismatches(asked, effective("sched_seqs8_c64")) == []


def test_flags_are_written_as_vllm_reads_them() -> None:
    options = {
        "max-num-seqs": 8,
        "enforce-eager": True,
        "enable-prefix-caching": False,
        "kv-cache-dtype": None,
        "cudagraph-capture-sizes": "1 2 4",
        "speculative-config": '{"method": "ngram"}',
    }
    assert flags(options) == [
        *("--max-num-seqs", "8", "--enforce-eager", "--no-enable-prefix-caching"),
        *("--cudagraph-capture-sizes", "1", "2", "4"),
        *("--speculative-config", '{"method": "ngram"}'),
    ]
    with pytest.raises(UsageError, match="without its dashes"):
        flags({"--max-num-seqs": 8})


def test_the_command_serves_the_model_under_its_name(tmp_path: Path) -> None:
    command = Vllm().command(launch(max_num_seqs=8), host="::1", port=8001, workdir=tmp_path)
    assert command.argv[1:4] == ["-m", "vllm.entrypoints.cli.main", "serve"]
    assert command.argv[4:] == [
        *("big", "--host", "::1", "--port", "8001", "--served-model-name", "m"),
        *("--max-num-seqs", "8"),
    ]
    spec = Vllm().launch_spec(launch(max_num_seqs=8))
    assert spec.argv[:5] == ["{python}", "-m", "vllm.entrypoints.cli.main", "serve", "{model}"]
    assert spec.files == {} and spec.health_path == "/health"


def test_a_page_becomes_counters_in_the_words_of_the_kit() -> None:
    found = Vllm().counters(text("host_eager_c4", "metrics_after.txt.gz"))
    assert (found.prompt_tokens, found.cached_tokens, found.queried_tokens) == (1536, 0, 1536)
    assert (found.output_tokens, found.requests, found.steps) == (2176, 16, 531)
    assert found.prefill_s == pytest.approx(1.17102, abs=1e-5)
    assert found.decode_s == pytest.approx(36.02075, abs=1e-5)
    assert found.queue_s == pytest.approx(0.000298, abs=1e-6)
    assert (found.preemptions, found.running, found.waiting, found.kv_usage_ratio) == (0, 0, 0, 0)


def test_replicas_inside_one_server_are_summed_and_the_fullest_cache_counts() -> None:
    page = "".join(
        f'vllm:num_requests_running{{engine="{i}"}} {n}\n'
        f'vllm:kv_cache_usage_perc{{engine="{i}"}} 0.{n}\n'
        for i, n in ((0, 3), (1, 5))
    )
    found = Vllm().counters(page)
    assert (found.running, found.kv_usage_ratio, found.prompt_tokens) == (8, 0.5, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "CUDA out of memory"),
        ("vllm: error: unrecognized arguments: --max-num-partial-prefills 2", "not know the arg"),
        ("ValueError: No available memory for the cache blocks. Try", "No available memory"),
        ("OSError: [Errno 98] Address already in use", "the port is in use"),
        ("/usr/bin/python: No module named vllm", "package vllm is not installed"),
        ("(EngineCore pid=7) ValueError: max_num_batched_tokens (1) is", "max_num_batched_tokens"),
    ],
)
def test_a_failed_start_is_explained(line: str, reason: str) -> None:
    assert reason in (Vllm().startup_error(f"INFO something\n{line}\nmore\n") or "")


def test_a_good_log_explains_nothing() -> None:
    assert Vllm().startup_error(text("weights_c8", "startup.log.gz")) is None
