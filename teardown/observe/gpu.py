"""Read every GPU through NVML; a host without one is a reason, not an error."""

from collections.abc import Callable
from typing import Any

# One row per GPU and sample: bytes, watts, MHz, percent of time that some kernel ran; the last is
# NVML's bit set of clock event reasons. An empty cell was not readable.
GPU_COLUMNS = (
    "t",
    "index",
    "utilisation",
    "power_w",
    "sm_clock_mhz",
    "mem_clock_mhz",
    "memory_used_bytes",
    "throttle_reasons",
)


class Gpus:
    """The GPUs of this host. `reason` says why there are none; None where there are."""

    def __init__(self, *, wanted: bool) -> None:
        self.reason: str | None = None
        self.names: list[str] = []
        self._handles: list[Any] = []
        if not wanted:
            self.reason = "not granted"
            return
        import pynvml

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
            self.names = [str(pynvml.nvmlDeviceGetName(handle)) for handle in self._handles]
        except pynvml.NVMLError as error:
            self.reason = f"NVML: {error}"
        if not self._handles and self.reason is None:
            self.reason = "NVML sees no GPU"

    def rows(self, t: float) -> list[list[str]]:
        """Return one row of GPU_COLUMNS per GPU."""
        return [
            [f"{t:.3f}", str(index), *self._cells(handle)]
            for index, handle in enumerate(self._handles)
        ]

    def _cells(self, handle: Any) -> list[str]:
        nvml = self._nvml
        readers: tuple[Callable[[], Any], ...] = (
            lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        )
        cells = []
        for read in readers:
            try:
                cells.append(str(read()))
            except nvml.NVMLError:
                cells.append("")
        return cells
