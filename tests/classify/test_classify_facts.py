import json
from pathlib import Path

import numpy as np
import pytest

from teardown.classify.data import ModelFacts
from teardown.classify.facts import facts_of_config, facts_of_gguf
from teardown.classify.hardware import hardware_of, probe_cpu
from teardown.classify.options import is_eager, largest_graph, number
from teardown.errors import UsageError
from teardown.settings import HardwareSettings
from tests.classify.recordings import FOLDER

CONFIG = json.loads((FOLDER / "model_config.json").read_text())


def test_a_dense_config_gives_the_bytes_of_the_recorded_model():
    facts = facts_of_config(CONFIG)
    assert facts.kv_bytes_per_token == 147_456
    assert facts.weights_streamed_bytes == pytest.approx(15.1e9, rel=0.01)
    assert facts_of_config(CONFIG, {"kv-cache-dtype": "fp8"}).kv_bytes_per_token == 73_728


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"num_experts": 8}, "experts"),
        ({"kv_lora_rank": 512}, "per head"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"use_sliding_window": True}, "windowed"),
        ({"hidden_size": None}, "names no hidden_size"),
    ],
)
def test_a_config_that_the_formulas_do_not_cover_is_none_with_a_reason(change, reason):
    facts = facts_of_config({**CONFIG, **change})
    assert facts.weights_streamed_bytes is None and facts.kv_bytes_per_token is None
    assert reason in facts.reasons["kv_bytes_per_token"]


def _gguf(path: Path, *, tied: bool) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    names = ["token_embd.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight"]
    for name in names if tied else [*names, "output.weight"]:
        writer.add_tensor(name, np.zeros((64, 64), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_header_gives_streamed_bytes_and_the_cache_by_its_type(tmp_path):
    _gguf(tmp_path / "tied.gguf", tied=True)
    _gguf(tmp_path / "own.gguf", tied=False)
    tied, own = facts_of_gguf(tmp_path / "tied.gguf"), facts_of_gguf(tmp_path / "own.gguf")
    assert tied.weights_streamed_bytes == own.weights_streamed_bytes == 3 * 64 * 64 * 2
    assert tied.kv_bytes_per_token == 2 * 2 * 16 * (2 + 2)  # layers, KV heads, width, f16 K and V
    options = {"cache-type-k": "q8_0", "cache-type-v": "q4_0"}
    small = facts_of_gguf(tmp_path / "tied.gguf", options)
    assert small.kv_bytes_per_token == pytest.approx(2 * 2 * 16 * (34 / 32 + 18 / 32))


def test_a_file_that_is_no_gguf_is_a_usage_error(tmp_path):
    pytest.importorskip("gguf")
    (tmp_path / "m.gguf").write_bytes(b"not a model, but long enough to be looked at" * 10)
    with pytest.raises(UsageError, match="cannot be read as GGUF"):
        facts_of_gguf(tmp_path / "m.gguf")


def test_a_step_reads_more_experts_with_more_tokens():
    facts = ModelFacts(
        source="s",
        weights_streamed_bytes=10.0,
        expert_bytes=100.0,
        num_experts=10,
        num_experts_used=2,
    )
    assert facts.streamed_bytes(1) == pytest.approx(30.0)
    assert facts.streamed_bytes(100) == pytest.approx(110.0)


def test_hardware_is_the_clients_number_then_the_datasheet_then_nothing():
    given = hardware_of(HardwareSettings(gpu="H200", read_bandwidth_bytes_per_s=4.3e12))
    assert given is not None and (given.how, given.read_bandwidth_bytes_per_s) == (
        "measured",
        4.3e12,
    )
    sheet = hardware_of(HardwareSettings(gpu="H200", count=2))
    assert sheet is not None and sheet.read_bandwidth_bytes_per_s == pytest.approx(8.64e12)
    assert hardware_of(None) is None
    unknown = hardware_of(None, ["A GPU of tomorrow"])
    assert unknown is not None and unknown.read_bandwidth_bytes_per_s is None


def test_the_probe_measures_a_plausible_bandwidth():
    found = probe_cpu(32 * 2**20, seconds=0.05)
    assert found.how == "measured"
    assert 1e8 < (found.read_bandwidth_bytes_per_s or 0) < 1e13


def test_options_are_found_by_any_spelling():
    assert number({"--max_num_seqs": "8"}, ("max-num-seqs",)) == 8
    assert number({"parallel": True}, ("parallel",)) is None
    assert is_eager({"enforce_eager": True}) and is_eager({"cudagraph-mode": "NONE"})
    assert is_eager({"compilation-config": '{"cudagraph_mode": "NONE"}'})
    assert not is_eager({"enforce-eager": False})
    assert largest_graph({"cudagraph-capture-sizes": "1 2 4"}) == 4
    assert largest_graph({"compilation-config": '{"cudagraph_capture_sizes": [1, 8]}'}) == 8
    assert largest_graph({"max-cudagraph-capture-size": 512}) == 512
    assert largest_graph({}) is None
