import pytest

from teardown.engine_facts import gpu, gpu_of_device, gpus, metric_rows
from teardown.engines import Counters
from teardown.errors import UsageError


def test_every_gpu_has_its_peaks_and_a_source() -> None:
    assert {"H200", "H100-80GB", "A100-80GB", "L40S", "RTX-4090", "RTX-3090", "B200"} <= set(gpus())
    for one in gpus().values():
        assert 1e11 < one.read_bandwidth_bytes_per_s < 1e13
        assert 1e13 < one.bf16_flop_per_s < 1e16
        assert one.memory_bytes > 2**34 and one.source and one.device_names


def test_a_gpu_is_found_by_name_and_by_the_drivers_name() -> None:
    assert gpu("H200").read_bandwidth_bytes_per_s == 4.8e12
    assert gpu_of_device("NVIDIA A100-SXM4-80GB") == gpu("A100-80GB")
    assert gpu_of_device("Voodoo 2") is None
    with pytest.raises(UsageError, match="did you mean 'RTX-4090'"):
        gpu("rtx4090")


def test_every_metric_row_is_a_word_of_the_kit() -> None:
    for engine in ("llama.cpp", "vllm"):
        words = [row.word for row in metric_rows(engine)]
        assert len(set(words)) == len(words)
        assert set(words) <= set(Counters.__dataclass_fields__)
    assert metric_rows("llama-cpp-python") == ()
