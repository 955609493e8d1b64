"""`make soak`: ten minutes at 300 streams; memory must stay flat and no event may be lost.

    python -m tests.bench_load.soak [MINUTES]

Events are counted by the server as it writes them and in the journal, which has a stamp of each.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from teardown.load.config import LoadResult
from teardown.records import read
from tests.bench_load.clients import journal_records, on_core, plan, prepare_load
from tests.bench_load.server import (
    NUM_EVENTS,
    PER_SECOND,
    CannotRun,
    PacedServer,
    compile_server,
    paced_server,
)

MINUTES = 10.0
STREAMS = 300
SETTLED_AFTER = 0.2  # of the time: two of ten minutes
FLAT_RATIO = 1.05
SAMPLE_S = 5.0
STREAM_S = 0.03 + (NUM_EVENTS - 1) / PER_SECOND
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run, print, and exit 1 where memory grew or an event is missing."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        try:
            is_good = soak(folder, minutes)
        except CannotRun as error:
            sys.exit(f"soak: {error}")
    sys.exit(0 if is_good else 1)


def soak(folder: Path, minutes: float) -> bool:
    """Run the load process for about `minutes`; return whether both claims hold."""
    cores = sorted(os.sched_getaffinity(0))
    per_stream = max(1, round(minutes * 60 / STREAM_S))
    print(
        f"{STREAMS} streams of {PER_SECOND:g} events a second for {minutes:g} minutes", flush=True
    )
    with paced_server(compile_server(folder), folder, core=cores[0]) as server:
        config = prepare_load(folder, server.url, plan(STREAMS, per_stream))
        command = [sys.executable, "-m", "teardown.load.process", str(folder / "load.json")]
        process = subprocess.Popen(
            command, preexec_fn=on_core(cores[-1]), stdout=subprocess.DEVNULL
        )
        samples = _watch(process)
    if process.returncode != 0:
        raise CannotRun(f"the load process ended with code {process.returncode}")
    result = read(LoadResult, Path(config.result_path))
    is_flat = _print_memory(samples)
    return _print_events(server, Path(config.journal_path), result) and is_flat


def _watch(process: "subprocess.Popen[bytes]") -> list[tuple[float, float]]:
    """Return (seconds, MB in memory) of the process until it ends."""
    began_s, samples = time.monotonic(), []
    path = Path(f"/proc/{process.pid}/statm")
    while process.poll() is None:
        samples.append((time.monotonic() - began_s, _resident_mb(path)))
        try:
            process.wait(SAMPLE_S)
        except subprocess.TimeoutExpired:
            continue
    return samples


def _resident_mb(path: Path) -> float:
    return int(path.read_text().split()[1]) * PAGE_BYTES / 1e6


def _print_memory(samples: list[tuple[float, float]]) -> bool:
    whole_s = samples[-1][0]
    for part in range(1, 11):
        at_s, mb = min(samples, key=lambda sample: abs(sample[0] - whole_s * part / 10))
        print(f"  {at_s:5.0f} s  {mb:6.1f} MB")
    # the last sample may meet a process that is ending
    settled = min(samples, key=lambda sample: abs(sample[0] - whole_s * SETTLED_AFTER))[1]
    last = samples[-2][1]
    is_flat = last <= settled * FLAT_RATIO
    print(f"memory {settled:.1f} MB, then {last:.1f} MB: {'flat' if is_flat else 'GREW'}")
    return is_flat


def _print_events(server: PacedServer, journal: Path, result: LoadResult) -> bool:
    kept = [r for r in journal_records(journal) if not isinstance(r, float)]
    stamps = sum(len(record["chunk_s"]) for record in kept)
    written = int(server.counters["events"])
    is_whole = stamps == written == len(kept) * NUM_EVENTS
    print(
        f"events written by the server {written:,}, stamped in the journal {stamps:,}; "
        f"streams {int(server.counters['finished']):,} and {len(kept):,}: "
        f"{'none lost' if is_whole else 'LOST'}"
    )
    print(f"statuses {result.counts}, CPU {result.cpu_s / stamps * 1e6:.1f} µs per event")
    if lag := result.receive_lag:
        print(f"receive lag p99 {lag.p99 * 1e3:.2f} ms, longest {lag.max * 1e3:.1f} ms")
    return is_whole


if __name__ == "__main__":
    main()
