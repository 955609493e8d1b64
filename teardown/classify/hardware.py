"""How fast the engine's device reads memory: the client's number, a probe, or the datasheet."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from teardown import engine_facts
from teardown.classify.data import HardwareFacts
from teardown.settings import HardwareSettings

# A copy on an H200 moves 4.3 of the datasheet's 4.8 TB/s, a 3090 reads 854 of 936 GB/s: 0.90, 0.91.
DATASHEET_READ_RATIO = 0.90
# Larger than any last-level cache of one socket; smaller models are probed at their own size.
PROBE_BYTES = 512 * 2**20
PROBE_S = 1.0


def hardware_of(
    settings: HardwareSettings | None, gpu_names: list[str] | None = None
) -> HardwareFacts | None:
    """Return the GPU by `engagement.yaml`, else by the names that NVML gave; None without one.

    UsageError from `engine_facts` when the settings name a GPU that is not in the table.
    """
    count = settings.count if settings else max(1, len(gpu_names or []))
    if settings and settings.read_bandwidth_bytes_per_s:
        return HardwareFacts(
            device="gpu" if settings.gpu or gpu_names else "cpu",
            name=settings.gpu or "as given",
            read_bandwidth_bytes_per_s=settings.read_bandwidth_bytes_per_s * count,
            how="measured",
            source="engagement.yaml",
            count=count,
        )
    if settings and settings.gpu:
        known: engine_facts.Gpu | None = engine_facts.gpu(settings.gpu)
    elif gpu_names:
        known = engine_facts.gpu_of_device(gpu_names[0])
    else:
        return None
    if known is None:
        why = f"{(gpu_names or ['?'])[0]} is not in engine_facts/gpus.json"
        return HardwareFacts(
            device="gpu",
            name=(gpu_names or ["?"])[0],
            read_bandwidth_bytes_per_s=None,
            how="unknown",
            source="NVML",
            count=count,
            reasons={"read_bandwidth_bytes_per_s": why},
        )
    return HardwareFacts(
        device="gpu",
        name=known.name,
        read_bandwidth_bytes_per_s=known.read_bandwidth_bytes_per_s * DATASHEET_READ_RATIO * count,
        how="datasheet",
        source=f"{DATASHEET_READ_RATIO:.0%} of {known.source}",
        count=count,
    )


def probe_cpu(working_set_bytes: float | None = None, *, seconds: float = PROBE_S) -> HardwareFacts:
    """Measure this host's read bandwidth with all CPUs that this process may use; about 1 s.

    Run it while the engine is idle. working_set_bytes: the weights that a step reads, so that a
    model which stays in the last-level cache is compared with that cache's bandwidth. The best of
    all passes counts: anything else on the host only slows one down.
    """
    import numpy as np

    workers = len(os.sched_getaffinity(0))
    size = int(min(working_set_bytes or PROBE_BYTES, PROBE_BYTES)) // 8 // workers
    parts = [np.ones(max(size, 1024), dtype=np.int64) for _ in range(workers)]

    def read(part: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
        return int(np.bitwise_or.reduce(part))  # one pass, no arithmetic to speak of, GIL released

    best = 0.0
    moved = sum(part.nbytes for part in parts)
    deadline = time.perf_counter() + seconds
    with ThreadPoolExecutor(max_workers=workers) as pool:
        list(pool.map(read, parts))
        while best == 0.0 or time.perf_counter() < deadline:
            began = time.perf_counter()
            list(pool.map(read, parts))
            best = max(best, moved / (time.perf_counter() - began))
    return HardwareFacts(
        device="cpu",
        name=f"{workers} CPUs",
        read_bandwidth_bytes_per_s=best,
        how="measured",
        source=f"read probe over {moved / 2**20:.0f} MiB",
    )
