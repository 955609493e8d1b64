"""`make bench-load`: the load process beside its peers on one paced server, in one run.

The server (C, real-time priority where allowed) has one core, each client the other. It writes one
event of 300 bytes per TCP write, 40 a second on every stream, 160 a stream, the first 20 to 40 ms
after the request. GuideLLM and AIPerf are many processes and may use both cores.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.bench_load.clients import Measured, busy_loop, ours, run_ours, run_peer
from tests.bench_load.peers import PEERS, Reported, python_of
from tests.bench_load.server import CannotRun, PacedServer, compile_server, paced_server

LEVELS = (200, 600)
PER_STREAM = 2
PEER_STREAMS = 200
OURS, AIOHTTP, HTTPX = "Teardown", "aiohttp", "httpx"
STAMP_BAR_US, SHARED_BAR_US = 20.0, 1000.0
CPU_BARS = {AIOHTTP: 0.9, HTTPX: 0.3}


class Truth(NamedTuple):
    """What the server itself measured while one tool ran; milliseconds."""

    ttft_ms: float
    gap_ms: float


class Bench:
    """One compiled server, a folder per run, the cores."""

    def __init__(self, folder: Path) -> None:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise CannotRun("this needs two cores: one for the server, one for the client")
        self._server_core, self.client_core = cores[0], cores[1]
        self._program = compile_server(folder)
        self._folder = folder
        self._num_runs = 0

    def measure(self, name: str, num_streams: int, *, may_be_real_time: bool = True) -> Measured:
        """Run one client alone on its core."""
        folder = self._new_folder()
        core = self.client_core
        with paced_server(self._program, folder, core=self._server_core) as server:
            if name == OURS:
                config, result = run_ours(
                    folder,
                    server,
                    core,
                    num_streams,
                    PER_STREAM,
                    may_be_real_time=may_be_real_time,
                )
            else:
                python = python_of("clients")
                found = run_peer(name, python, folder, server, core, num_streams, PER_STREAM)
        _check(server)
        return ours(name, config, result, server) if name == OURS else found

    def report(
        self, run: Callable[[PacedServer, Path, int, int], Reported]
    ) -> tuple[Reported, Truth]:
        """Run one of the big tools, on every core."""
        folder = self._new_folder()
        with paced_server(self._program, folder, core=self._server_core) as server:
            reported = run(server, folder, PEER_STREAMS, PER_STREAM)
        streams = server.streams()
        return reported, Truth(float(streams.ttft_s.mean()) * 1e3, streams.gap_s * 1e3)

    def _new_folder(self) -> Path:
        self._num_runs += 1
        folder = self._folder / str(self._num_runs)
        folder.mkdir()
        return folder


def main() -> None:
    """Print the tables and whether each bar is met."""
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        try:
            python_of("clients")
            bench = Bench(Path(folder))
        except CannotRun as error:
            sys.exit(f"bench-load: {error}")
        alone = {level: _alone(bench, level) for level in LEVELS}
        shared = _shared(bench)
        _print_reported(bench, alone[PEER_STREAMS][OURS])
        _print_bars(alone, shared)


def _alone(bench: Bench, level: int) -> dict[str, Measured]:
    print(f"\n{level} streams, {level * 40:,} events a second\n")
    _print_head()
    found = {}
    for name in (OURS, AIOHTTP, HTTPX):
        found[name] = bench.measure(name, level)
        _print_row(found[name], found[OURS])
    return found


def _shared(bench: Bench) -> dict[str, Measured]:
    level = LEVELS[-1]
    print(f"\n{level} streams, a busy loop on the client's core\n")
    _print_head()
    found = {}
    runs = {
        OURS: partial(bench.measure, OURS),
        f"{OURS}, no right to real-time": partial(bench.measure, OURS, may_be_real_time=False),
        AIOHTTP: partial(bench.measure, AIOHTTP),
    }
    for name, run in runs.items():
        with busy_loop(bench.client_core):
            found[name] = run(level)
        _print_row(found[name], found[OURS], name)
    return found


def _print_reported(bench: Bench, own: Measured) -> None:
    streams = f"{PEER_STREAMS} streams"
    print(f"\nwhat each tool says of the same server, {streams}\n")
    print("| tool | mean TTFT, ms | truth | off by | mean gap, ms | truth | CPU µs/event |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(
        f"| {OURS} | {own.ttft_s * 1e3:.2f} | {own.true_ttft_s * 1e3:.2f} "
        f"| {(own.ttft_s - own.true_ttft_s) * 1e3:+.2f} | {own.gap_s * 1e3:.3f} "
        f"| {own.true_gap_s * 1e3:.3f} | {own.cpu_us_per_event:.0f} |"
    )
    for name, run in PEERS.items():
        try:
            told, truth = bench.report(run)
        except CannotRun as error:
            print(f"| {name} | cannot run here: {error} | | | | | |")
            continue
        print(
            f"| {told.name} | {told.ttft_ms:.2f} | {truth.ttft_ms:.2f} "
            f"| {told.ttft_ms - truth.ttft_ms:+.2f} | {told.gap_ms:.3f} | {truth.gap_ms:.3f} "
            f"| {told.cpu_us:.0f}, start-up included |"
        )


def _print_head() -> None:
    print("| client | CPU µs/event | ours over it | stamp error µs: p50 | p99 | max | took s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)


def _print_row(row: Measured, own: Measured, name: str = "") -> None:
    label = f"{name or row.name} {row.version}".strip()
    print(
        f"| {label} | {row.cpu_us_per_event:.1f} "
        f"| {own.cpu_us_per_event / row.cpu_us_per_event:.2f} | {row.error_us(0.5):,.1f} "
        f"| {row.error_us(0.99):,.1f} | {row.error_us(1.0):,.1f} | {row.elapsed_s:.1f} |",
        flush=True,
    )


def _print_bars(alone: dict[int, dict[str, Measured]], shared: dict[str, Measured]) -> None:
    print()
    top = LEVELS[-1]
    _bar(f"stamp error p99 at {top} streams, µs", alone[top][OURS].error_us(0.99), STAMP_BAR_US)
    _bar("stamp error p99, core shared, µs", shared[OURS].error_us(0.99), SHARED_BAR_US)
    for level, found in alone.items():
        for name, bar in CPU_BARS.items():
            ratio = found[OURS].cpu_us_per_event / found[name].cpu_us_per_event
            _bar(f"CPU per event over {name}'s at {level} streams", ratio, bar)


def _bar(what: str, value: float, bar: float) -> None:
    print(f"bar {what}: {value:.2f}, at most {bar:g}: {'met' if value <= bar else 'missed'}")


def _check(server: PacedServer) -> None:
    """A server that lost a stream or had to wait for the client's buffers proves nothing."""
    if server.counters["broken"]:
        raise CannotRun(f"{server.counters['broken']:g} streams broke off")


if __name__ == "__main__":
    main()
