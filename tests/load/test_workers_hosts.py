"""Three hosts run one workload together: network namespaces on one bridge, one of them far away.

The engine and the master stand on the bridge's own host. Needs root, Linux and `ip` (iproute2).
"""

import itertools
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from teardown.load.config import Progress
from teardown.load.journal import missing
from teardown.load.run import run_load
from teardown.records import Schedule, Speech, read
from tests.fakes.engine import FakeEngine, chat_stream
from tests.fakes.link import SlowLink
from tests.fakes.loads import closed_schedule, item, journal_of, load_config, schedule
from tests.fakes.processes import free_port, meanwhile

NUM_HOSTS = 3
FAR_S = 0.04  # each way, on the link of one host to the master
SLOW = chat_stream(["a", "b", "c"], first_ms=100, gap_ms=50)
NUMBERS = itertools.count()


def quiet(progress: Progress) -> None:
    """Progress that nobody reads."""


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


@dataclass(frozen=True)
class Hosts:
    """Namespaces `names`, each at the end of the cable of that place in `cables`."""

    address: str
    names: list[str]
    cables: list[str]

    def worker(self, number: int, port: int, folder: Path) -> "subprocess.Popen[str]":
        join = f"{self.address}:{port}"
        command = ["ip", "netns", "exec", self.names[number], sys.executable]
        command += ["-m", "teardown.cli", "worker", "--join", join, "--folder", str(folder)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("network namespaces need root on Linux")
    if shutil.which("ip") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("iproute2 is missing: .ci/run installs it")
        pytest.skip("network namespaces need `ip` (iproute2)")
    mark = f"td{os.getpid() % 100_000}{next(NUMBERS)}"
    net = f"10.{77 + next(NUMBERS) % 100}.{os.getpid() % 250}"
    made = Hosts(
        address=f"{net}.1",
        names=[f"{mark}h{number}" for number in range(NUM_HOSTS)],
        cables=[f"{mark}c{number}" for number in range(NUM_HOSTS)],
    )
    try:
        try:
            ip("netns", "add", made.names[0])
        except OSError as error:
            pytest.skip(f"network namespaces are forbidden here: {error}")
        ip("link", "add", mark, "type", "bridge")
        ip("addr", "add", f"{net}.1/24", "dev", mark)
        ip("link", "set", mark, "up")
        for number, (name, cable) in enumerate(zip(made.names, made.cables, strict=True)):
            if number:
                ip("netns", "add", name)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", cable, "master", mark, "up")
            ip("-n", name, "addr", "add", f"{net}.{number + 2}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield made
    finally:
        for name in made.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        for device in (*made.cables, mark):
            subprocess.run(["ip", "link", "del", device], capture_output=True, check=False)


def workload(kind: str) -> Schedule:
    """Sessions of three turns: 9 users, 9 calls, or 60 requests over three seconds."""
    if kind == "closed":
        turns = [
            item(n, session=f"s{n // 3}", turn=n % 3, lane=n // 3 % 9, think_s=0.05 * (n % 3))
            for n in range(81)
        ]
        return schedule(turns, kind=kind, concurrency=9)
    if kind == "voice":
        turns = [
            item(
                3 * call + turn,
                session=f"s{call}",
                turn=turn,
                lane=call,
                intended_s=0.1 * call if turn == 0 else None,
                think_s=0.1 * turn,
            )
            for call in range(9)
            for turn in range(3)
        ]
        speech = Speech(words_per_minute=1200.0, endpointing_s=0.05)
        return schedule(turns, kind=kind, concurrency=9, speech=speech)
    turns = [
        item(n, session=f"s{n % 20}", turn=n // 20, lane=n, intended_s=0.05 * n) for n in range(60)
    ]
    return schedule(turns, kind=kind, rate_per_s=20.0)


@pytest.mark.parametrize("kind", ["closed", "open", "voice"])
def test_three_hosts_run_one_workload_together(tmp_path: Path, hosts: Hosts, kind: str) -> None:
    plan = workload(kind)
    here = hosts.address
    with FakeEngine(SLOW) as fake, ExitStack() as stack:
        port = free_port()
        engine = SlowLink((here, 0), ("127.0.0.1", fake.port), delay_s=0.0)
        far = SlowLink((here, 0), (here, port), delay_s=FAR_S)
        stack.enter_context(engine)
        stack.enter_context(far)
        ports = [port, port, far.port]
        workers = []
        for number in range(NUM_HOSTS):
            worker = hosts.worker(number, ports[number], tmp_path / f"host{number}")
            workers.append(stack.enter_context(worker))
            stack.callback(worker.kill)
        config = load_config(
            tmp_path,
            f"http://{here}:{engine.port}/v1",
            plan,
            workers=NUM_HOSTS,
            listen=f"{here}:{port}",
        )
        result = run_load(config, quiet)
        for worker in workers:
            worker.communicate(timeout=20)
        assert [worker.returncode for worker in workers] == [0, 0, 0]
        assert fake.num_requests == len(plan.requests)
        if kind != "open":
            assert fake.peak_in_flight <= 9
        if kind == "voice":  # the answers of the turns before are part of the history
            assert max(len(body["messages"]) for body in fake.bodies) == 5
    journal = journal_of(config)
    assert (result.ended, result.counts) == ("complete", {"ok": len(plan.requests)})
    ids = Counter(request.request_id for request in journal.requests)
    assert ids == Counter(request.request_id for request in plan.requests)
    assert {request.worker for request in journal.requests} == {"1", "2", "3"}
    for session in {request.session for request in plan.requests}:
        own = [request for request in journal.requests if request.session == session]
        assert [request.turn for request in own] == sorted(request.turn for request in own)
        assert len({request.worker for request in own}) == 1
    # the namespaces share one kernel and so one clock: every offset that is found is an error
    for part in result.workers:
        assert abs(part.clock_offset_s) <= part.clock_error_s
    errors = sorted(part.clock_error_s for part in result.workers)
    assert errors[1] < 0.02
    assert errors[2] == pytest.approx(FAR_S, abs=0.02)
    assert any(note.endswith("half of the quickest round trip to it") for note in result.notes)
    if kind == "open":
        waits = sorted(r.client_wait_s or 0.0 for r in journal.requests if r.turn == 0)
        assert waits[0] >= 0
        assert waits[len(waits) // 2] < 0.02  # all began at one moment
    for number in range(NUM_HOSTS):
        assert list((tmp_path / f"host{number}").iterdir()) == []


def test_a_cable_that_is_pulled_costs_one_hosts_unfinished_requests_alone(
    tmp_path: Path, hosts: Hosts
) -> None:
    here = hosts.address
    with FakeEngine(SLOW) as fake, ExitStack() as stack:
        port = free_port()
        engine = stack.enter_context(SlowLink((here, 0), ("127.0.0.1", fake.port), delay_s=0.0))
        workers = []
        for number in range(NUM_HOSTS):
            worker = hosts.worker(number, port, tmp_path / f"host{number}")
            workers.append(stack.enter_context(worker))
            stack.callback(worker.kill)
        config = load_config(
            tmp_path,
            f"http://{here}:{engine.port}/v1",
            closed_schedule(240, 6),
            workers=NUM_HOSTS,
            listen=f"{here}:{port}",
        )

        def pull() -> None:
            fake.wait_for_requests(60, 60.0)
            ip("link", "set", hosts.cables[1], "down")

        with meanwhile(pull):
            result = run_load(config, quiet)
        said = [worker.communicate(timeout=20) for worker in workers]
        assert sorted(worker.returncode for worker in workers) == [0, 0, 3]
        assert fake.peak_in_flight <= 6
    journal = journal_of(config)
    (lost,) = [part for part in result.workers if part.lost is not None]
    assert lost.lost == "it was not heard for 4 s"
    assert [p.counts for p in result.workers if p.lost is None] == [{"ok": 80}, {"ok": 80}]
    assert "the master is gone" in said[1][1]
    mine = Counter(r.status for r in journal.requests if r.worker == lost.worker)
    assert mine["aborted"] <= 2
    assert mine["ok"] == lost.counts["ok"] >= 10
    unsent = missing(read(Schedule, Path(config.schedule_path)), journal)
    assert len(unsent) == 80 - mine.total()
    assert unsent
    assert len(result.notes) == 1
    assert "it was not heard for 4 s" in result.notes[0]
    assert len(list((tmp_path / "host1").iterdir())) == 1  # what the master did not get
