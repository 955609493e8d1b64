"""Sample records that several tests share."""

import time
from typing import Any

from teardown.load.calibrate import boot_id
from teardown.records import Calibration, Spread, StreamShape

SHAPE = StreamShape(streams=4, chunks_per_s=40.0)


def spread(p99_s: float = 0.0001) -> Spread:
    return Spread(n=100, p50=p99_s / 10, p99=p99_s, max=p99_s * 10)


def calibration(
    *, ttft_p99_s: float = 0.0001, gap_p99_s: float = 0.0001, **more: Any
) -> Calibration:
    """A calibration of this boot, made now; one process carries 1000 events a second."""
    fields: dict[str, Any] = {
        "measured_unix_s": time.time(),
        "boot_id": boot_id(),
        "shape": SHAPE,
        "elapsed_s": 3.0,
        "num_requests": 20,
        "num_events": 440,
        "ttft_overstatement_s": spread(ttft_p99_s),
        "stamp_error_s": spread(),
        "gap_error_s": spread(gap_p99_s),
        "receive_lag_s": spread(),
        "cpu_s_per_event": 0.0007,
        "ceiling_events_per_s": 1000.0,
        "ceiling_share": 0.7,
        "server_core": 1,
        "priority": "default",
        "expected": SHAPE,
        "workers_needed": 1,
    }
    return Calibration(**fields | more)
