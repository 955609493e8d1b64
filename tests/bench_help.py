"""`make bench-help`: how long each verb takes to answer `--help`, against the bar of 150 ms."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from teardown.cli import VERBS

BAR_MS = 150.0
RUNS = 7


def main() -> None:
    """Print the median and the minimum of each verb, and of an empty Python for comparison."""
    command = str(Path(sys.executable).with_name("teardown"))
    empty = _times([sys.executable, "-c", "pass"])
    print(f"{'empty python':14} median {statistics.median(empty):6.0f} ms")
    worst = 0.0
    for verb in ["", *VERBS]:
        times = _times([command, *([verb] if verb else []), "--help"])
        median = statistics.median(times)
        worst = max(worst, median)
        ratio = median / statistics.median(empty)
        print(
            f"{verb or '(none)':14} median {median:6.0f} ms   min {min(times):6.0f} ms   "
            f"{ratio:.1f}x an empty python"
        )
    print(
        f"worst median {worst:.0f} ms, bar {BAR_MS:.0f} ms: {'met' if worst < BAR_MS else 'MISSED'}"
    )


def _times(command: list[str]) -> list[float]:
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append((time.perf_counter() - started) * 1e3)
    return times


if __name__ == "__main__":
    main()
