"""`make bench-analysis`: what the analysis of a run costs at 10 thousand to a million requests.

Each table has 200 chunks a request and every column of a real one. It is written in groups of rows,
then read in a new process: both windows of the summary with all percentiles, plateau, attainment
and token rates, the median gap and the peak in flight, as the certificate needs them.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow

from teardown.load.columns import read_columns
from teardown.load.gaps import median_gap_s
from teardown.load.summary import edges, summarise_columns
from teardown.load.table import COLUMNS, GROUP_ROWS, SCHEMA, writing_table
from teardown.settings import Limit, Promises

SIZES = (10_000, 100_000, 1_000_000)
CHUNKS = 200
RATE_PER_S = 1000.0
BAR_S, BAR_GIB = 60.0, 4.0


def main() -> None:
    """Print one line a size, and whether the bars are met."""
    if len(sys.argv) == 2:
        analyse(Path(sys.argv[1]))
        return
    print("| requests | table, MB | written in, s | analysed in, s | µs a request | peak, GiB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="bench-analysis-") as folder:
        for size in SIZES:
            path = Path(folder) / f"{size}.parquet"
            began_s = time.monotonic()
            write_run(path, size)
            written_s = time.monotonic() - began_s
            began_s = time.monotonic()
            command = [sys.executable, "-m", "tests.bench_load.analysis", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            took_s = time.monotonic() - began_s
            found = json.loads(done.stdout)
            print(
                f"| {size:,} | {path.stat().st_size / 1e6:,.0f} | {written_s:.1f} | {took_s:.1f} "
                f"| {took_s / size * 1e6:.0f} | {found['peak_gib']:.2f} |",
                flush=True,
            )
            path.unlink()
    is_met = took_s <= BAR_S and found["peak_gib"] <= BAR_GIB
    print(
        f"bar {SIZES[-1]:,} requests of {CHUNKS} chunks in {BAR_S:g} s and {BAR_GIB:g} GiB: "
        f"{'met' if is_met else 'missed'}"
    )


def analyse(path: Path) -> None:
    """Print what the run of one table comes to, and the memory that it took."""
    run = read_columns(path)
    promises = Promises(ttft_s=Limit(p95=0.6), tpot_s=Limit(p95=0.03))
    summary = summarise_columns(run, promises, concurrency=1, is_open=True)
    _, step = edges(run.numbers["sent_s"], run.end_s)
    gap_s = median_gap_s(run)
    plateau = summary.plateau
    found = {
        "requests": plateau.num_requests,
        "ttft_p99_s": plateau.ttft_s.p99.value if plateau.ttft_s.p99 else None,
        "attainment": plateau.attainment.value if plateau.attainment else None,
        "output_tokens_per_s": plateau.output_tokens_per_s,
        "median_gap_s": gap_s,
        "peak_in_flight": int(np.cumsum(step).max()),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(json.dumps(found))


def write_run(path: Path, num_requests: int) -> None:
    """Write an open loop of 1,000 requests a second, drawn from one seed."""
    draw = np.random.default_rng(1)
    with writing_table(path) as write:
        for first in range(0, num_requests, GROUP_ROWS):
            write(_group(draw, first, min(GROUP_ROWS, num_requests - first)))


def _group(draw: np.random.Generator, first: int, num_rows: int) -> pyarrow.Table:
    number = np.arange(first, first + num_rows)
    intended = number / RATE_PER_S
    sent = intended + draw.exponential(0.0005, num_rows)
    ttft = draw.lognormal(-1.2, 0.4, num_rows)
    gaps = draw.normal(0.025, 0.002, (num_rows, CHUNKS)).clip(0.0001)
    gaps[:, 0] = ttft
    stamps = sent[:, None] + np.cumsum(gaps, axis=1)
    e2e = stamps[:, -1] - sent
    offsets = np.arange(0, num_rows * CHUNKS + 1, CHUNKS, dtype=np.int32)
    made = {
        "request_id": [f"r{n}" for n in number],
        "attempt": np.ones(num_rows, np.int64),
        "status": ["error" if n % 500 == 0 else "ok" for n in number],
        "finish_reason": ["length"] * num_rows,
        "http_status": np.full(num_rows, 200),
        "worker": ["0"] * num_rows,
        "session": [f"s{n}" for n in number],
        "turn": np.zeros(num_rows, np.int64),
        "intended_s": intended,
        "sent_s": sent,
        "ttft_s": ttft,
        "ttfo_s": ttft,
        "tpot_s": (e2e - ttft) / (CHUNKS - 1),
        "e2e_s": e2e,
        "stream_close_s": e2e + 0.0001,
        "max_gap_s": gaps[:, 1:].max(axis=1),
        "prompt_tokens": draw.integers(50, 2000, num_rows),
        "output_tokens": np.full(num_rows, CHUNKS),
        "first_chunk_tokens": np.ones(num_rows, np.int64),
        "output_tokens_source": ["usage"] * num_rows,
        "text_sha256": [f"{n:064x}" for n in draw.integers(0, 2**60, num_rows)],
        "chunk_s": _lists(offsets, stamps.ravel()),
        "stamp_width_s": _lists(offsets, np.zeros(num_rows * CHUNKS)),
        "receive_lag_s": draw.exponential(0.0001, num_rows),
        "reasons": ["{}"] * num_rows,
    }
    columns = [
        pyarrow.array(made[name], kind) if name in made else pyarrow.nulls(num_rows, kind)
        for name, kind in COLUMNS.items()
    ]
    return pyarrow.Table.from_arrays(columns, schema=SCHEMA)


def _lists(offsets: np.ndarray, values: np.ndarray) -> pyarrow.Array:
    return pyarrow.ListArray.from_arrays(pyarrow.array(offsets), pyarrow.array(values))


if __name__ == "__main__":
    main()
