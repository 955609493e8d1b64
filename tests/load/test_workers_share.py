"""Dealing a schedule to workers, and making one journal and one result of what they send."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teardown.errors import UsageError
from teardown.load.config import LoadConfig, LoadResult, StopIf
from teardown.load.merge import Merge, merged, worst
from teardown.load.messages import (
    Beat,
    Done,
    Hello,
    Lines,
    Place,
    Pulse,
    Work,
    from_data,
    place_of,
    to_data,
)
from teardown.load.outbox import AGAIN_AFTER_S, LINES_PER_BATCH, MOST_UNANSWERED, Outbox
from teardown.load.roster import ClockOffset, Member
from teardown.load.share import Share, deal
from teardown.records import Request, Schedule, Spread
from tests.fakes.loads import item, schedule


def config(**more: Any) -> LoadConfig:
    fields: dict[str, Any] = {
        "url": "http://h/v1",
        "model": "m",
        "schedule_path": "s",
        "prompts_path": "p",
        "journal_path": "j",
        "result_path": "r",
    }
    return LoadConfig(**fields | more)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    kind = draw(st.sampled_from(["open", "closed"]))
    sessions = draw(st.lists(st.integers(0, 6), min_size=1, max_size=30))
    turns: Counter[int] = Counter()
    items = []
    for number, session in enumerate(sessions):
        lane = number if kind == "open" else session % 4
        at_s = 0.1 * number if kind == "open" else None
        fields = {"session": f"s{session}", "turn": turns[session], "intended_s": at_s}
        items.append(item(number, lane=lane, **fields))
        turns[session] += 1
    return schedule(items, kind=kind, concurrency=draw(st.integers(1, 6)))


def caps(shares: list[Share]) -> list[int]:
    """How many requests each busy worker may have in flight."""
    busy = [share for share in shares if share.schedule.requests]
    if busy[0].schedule.kind == "open":
        return [share.config.max_in_flight or 0 for share in busy]
    return [share.schedule.concurrency for share in busy]


@given(schedules(), st.integers(1, 5), st.integers(1, 6), st.integers(0, 3))
def test_shares_make_the_schedule_and_never_more_than_the_asked_concurrency(
    plan: Schedule, workers: int, cap: int, num_skipped: int
) -> None:
    skip = [request.request_id for request in plan.requests[:num_skipped]]
    asked = cap if plan.kind == "open" else plan.concurrency
    shares = deal(config(workers=workers, max_in_flight=cap, skip=skip), plan)
    assert [share.config.worker for share in shares] == [str(n + 1) for n in range(workers)]
    sent = [request for share in shares for request in share.schedule.requests]
    left = [request for request in plan.requests if request.request_id not in skip]
    assert sorted(r.request_id for r in sent) == sorted(r.request_id for r in left)
    if left:
        assert sum(caps(shares)) == asked
        assert min(caps(shares)) >= 1
    owners: dict[str, set[str]] = {}
    for share in shares:
        ids = [request.request_id for request in share.schedule.requests]
        assert ids == [r.request_id for r in plan.requests if r.request_id in ids]  # in order
        for request in share.schedule.requests:
            owners.setdefault(request.session, set()).add(share.config.worker)
    assert all(len(workers) == 1 for workers in owners.values())


@given(st.integers(1, 40), st.integers(1, 6))
def test_lanes_ramp_in_as_they_would_in_one_process(num_lanes: int, workers: int) -> None:
    plan = schedule([item(n, lane=n) for n in range(num_lanes)], concurrency=num_lanes)
    starts = {}
    for share in deal(config(workers=workers, ramp_s=30.0), plan):
        lanes = sorted({request.lane for request in share.schedule.requests})
        for number, lane in enumerate(lanes):  # as `Sender.jobs` has it
            step_s = share.config.ramp_s / len(lanes)
            starts[lane] = share.config.ramp_from_s + number * step_s
    assert starts == pytest.approx({lane: 30.0 / num_lanes * lane for lane in range(num_lanes)})


def test_stopping_by_failures_and_listening_are_left_to_the_master() -> None:
    asked = config(workers=2, listen="0.0.0.0", stop_if=StopIf(error_ratio=0.1), parent_pid=7)
    shares = deal(asked, schedule([item(0), item(1, lane=1)], concurrency=2))
    for share in shares:
        told = share.config
        assert (told.stop_if, told.parent_pid, told.is_shared) == (None, None, False)


@given(
    offset_s=st.floats(-1e6, 1e6),
    trips=st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)), min_size=1, max_size=10),
)
def test_a_clock_offset_is_never_further_off_than_its_error_says(
    offset_s: float, trips: list[tuple[float, float]]
) -> None:
    """Whatever the way there and the way back take."""
    clock, now_s = ClockOffset(), 100.0
    for there_s, back_s in trips:
        pulse = Pulse(sent_s=now_s, worker_s=now_s + there_s + offset_s)
        now_s += there_s + back_s
        clock.add(pulse, now_s)
    sample = clock.fix()
    assert sample.error_s == pytest.approx(min(sum(trip) for trip in trips) / 2, abs=1e-9)
    assert abs(sample.offset_s - offset_s) <= sample.error_s + 1e-9


def member(name: str = "1", **more: Any) -> Member:
    hello = Hello(protocol=1, version="0", host=f"host{name}", pid=1)
    return Member(node=f"n{name}", name=name, hello=hello, heard_s=0.0, **more)


def started(request_id: str) -> bytes:
    return json.dumps({"event": "start", "request_id": request_id, "sent_s": 1.0}).encode()


def ended(request_id: str, status: str = "ok") -> bytes:
    record = {"request_id": request_id, "status": status, "chunk_s": [1.0, 2.0]}
    return json.dumps({"event": "end", "at_s": 2.0, "record": record}).encode()


def test_a_batch_that_came_before_or_too_early_is_dropped() -> None:
    merge, one = Merge(None), member()
    first = Lines(number=1, lines=[started("a"), ended("a"), started("b")])
    third = Lines(number=3, lines=[started("c")])
    assert merge.take(one, third) == []
    assert merge.take(one, first) == first.lines
    assert merge.take(one, first) == []
    assert merge.take(one, Lines(number=2, lines=[ended("b", "cut")])) != []
    assert merge.take(one, third) == third.lines
    assert (one.received, merge.num_dropped) == (3, 2)
    assert (merge.num_done, merge.num_failed, merge.num_in_flight) == (2, 1, 1)


def test_a_request_counts_once_whoever_sends_it() -> None:
    merge, one, two = Merge(None), member("1"), member("2")
    merge.take(one, Lines(number=1, lines=[started("a"), ended("a")]))
    assert merge.take(two, Lines(number=1, lines=[started("a"), ended("a"), ended("b")])) == [
        ended("b")
    ]
    assert merge.counts == {"1": {"ok": 1}, "2": {"ok": 1}}


def test_failures_of_all_workers_together_stop_a_run() -> None:
    merge = Merge(StopIf(error_ratio=0.4, after=4))
    merge.take(member("1"), Lines(number=1, lines=[ended("a", "error"), ended("b")]))
    assert merge.stop_because() is None
    merge.take(member("2"), Lines(number=1, lines=[ended("c", "error"), ended("d")]))
    assert merge.stop_because() == "2 of 4 requests failed, more than the 0.4 allowed"


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"event": 7}', b'{"event": "end", "record": {}}'])
def test_a_line_that_is_none_names_its_worker(line: bytes) -> None:
    with pytest.raises(UsageError, match="worker 1 on host1 sent a line that cannot be read"):
        Merge(None).take(member(), Lines(number=1, lines=[line]))


def result(**more: Any) -> LoadResult:
    fields: dict[str, Any] = {
        "journal_path": "own",
        "ended": "complete",
        "stopped_because": None,
        "attempt": 1,
        "counts": {"ok": 5},
        "total": 5,
        "elapsed_s": 1.0,
        "peak_in_flight": 2,
        "connections": 2,
        "retries": 1,
        "reads": 10,
        "events": 20,
        "kernel_stamps": True,
        "receive_lag": Spread(n=10, p50=0.001, p99=0.002, max=0.003),
        "send_lag": None,
        "clock_offset_moved_s": 0.0,
        "clock_events": 0,
        "cpu_s": 0.5,
        "priority": "real-time",
    }
    return LoadResult(**fields | more)


def merged_of(members: list[Member], stopped_because: str | None = None) -> LoadResult:
    return merged(
        members,
        Merge(None),
        journal_path="j",
        attempt=1,
        elapsed_s=2.0,
        stopped_because=stopped_because,
    )


def test_a_merged_result_adds_counts_and_takes_lags_and_clocks_of_the_worst() -> None:
    slow = result(
        receive_lag=Spread(n=2, p50=0.0005, p99=0.02, max=0.03),
        clock_offset_moved_s=0.004,
        priority="default",
    )
    done = [Done(last=0, result=result()), Done(last=0, result=slow)]
    whole = merged_of([member("1", total=5, done=done[0]), member("2", total=5, done=done[1])])
    assert (whole.ended, whole.total, whole.peak_in_flight, whole.cpu_s) == ("complete", 10, 4, 1.0)
    assert whole.receive_lag == Spread(n=12, p50=0.001, p99=0.02, max=0.03)
    assert (whole.clock_offset_moved_s, whole.priority) == (0.004, "default")
    assert [part.worker for part in whole.workers] == ["1", "2"]
    assert whole.workers[1].receive_lag == slow.receive_lag
    assert whole.notes == []
    assert worst([None, None]) is None


def test_a_lost_worker_and_one_that_left_are_in_the_notes() -> None:
    left = result(ended="interrupted", stopped_because="stopped by a signal on its host")
    whole = merged_of(
        [
            member("1", total=5, done=Done(last=0, result=result())),
            member("2", total=4, lost="it was not heard for 4 s"),
            member("3", total=3, done=Done(last=0, result=left)),
        ]
    )
    assert whole.ended == "interrupted"
    assert whole.notes == [
        "worker 2 on host2 did not finish its 4 requests: it was not heard for 4 s",
        "worker 3 on host3 did not finish its 3 requests: stopped by a signal on its host",
    ]
    assert whole.stopped_because == whole.notes[0]


def test_a_stop_of_all_is_said_once() -> None:
    stopped = Done(last=0, result=result(ended="interrupted", stopped_because="by the user"))
    whole = merged_of([member("1", done=stopped), member("2", done=stopped)], "by the user")
    assert (whole.stopped_because, whole.notes) == ("by the user", [])


def test_clocks_that_are_known_roughly_are_in_the_notes() -> None:
    far = member("2", done=Done(last=0, result=result()))
    far.clock.add(Pulse(sent_s=1.0, worker_s=51.0), 1.08)
    far.clock.fix()
    assert merged_of([far]).notes == [
        "times of worker 2 on host2 may be off by 40.0 ms against the others: "
        "that is half of the quickest round trip to it"
    ]


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def outbox(folder: Path, sent: list[Lines], clock: Clock) -> Outbox:
    def fail(error: OSError) -> None:
        raise error

    box = Outbox(folder / "own.jsonl", fail, sent.append, clock)
    box._mailer.kill()  # the test mails by hand
    return box


def end_line(number: int) -> dict[str, Any]:
    request = Request(request_id=f"r{number}", status="ok")
    return {"event": "end", "at_s": 1.0, "record": msgspec.to_builtins(request)}


def test_what_is_not_acknowledged_in_time_is_sent_again_in_order(tmp_path: Path) -> None:
    sent: list[Lines] = []
    clock = Clock()
    box = outbox(tmp_path, sent, clock)
    for number in range(2 * LINES_PER_BATCH + 1):
        box.add(end_line(number))
    assert not box.is_delivered
    box.mail()
    assert [batch.number for batch in sent] == [1, 2, 3]
    clock.now_s = AGAIN_AFTER_S
    box.mail()
    assert len(sent) == 3  # still in time
    box.acknowledge(1)
    clock.now_s = AGAIN_AFTER_S + 0.01
    box.mail()
    assert [batch.number for batch in sent[3:]] == [2, 3]
    assert sent[3:] == sent[1:3]
    assert box.finish() == 3
    box.acknowledge(3)
    assert box.is_delivered
    box.close()


def test_only_starts_and_ends_travel_and_all_lines_stay_here(tmp_path: Path) -> None:
    sent: list[Lines] = []
    box = outbox(tmp_path, sent, Clock())
    for line in ({"event": "open"}, end_line(1), {"event": "close"}):
        box.add(line)
    box.finish()
    box.close()
    assert [json.loads(line)["event"] for batch in sent for line in batch.lines] == ["end"]
    kept = (tmp_path / "own.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in kept] == ["open", "end", "close"]


def test_a_master_that_is_silent_is_not_flooded(tmp_path: Path) -> None:
    sent: list[Lines] = []
    box = outbox(tmp_path, sent, Clock())
    for number in range((MOST_UNANSWERED + 5) * LINES_PER_BATCH):
        box.add({"event": "start", "request_id": f"r{number}"})
    box.mail()
    assert len(sent) == MOST_UNANSWERED
    box.acknowledge(10)
    assert box.finish() == MOST_UNANSWERED + 5
    box.close()


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=20), max_size=5), st.binary(max_size=50))
def test_messages_come_out_as_they_went_in(lines: list[bytes], data: bytes) -> None:
    batch = Lines(number=4, lines=lines)
    assert from_data(Lines, to_data(batch)) == batch
    work = Work(config={"a": 1}, schedule=data, prompts=data)
    assert from_data(Work, to_data(work)) == work
    beat = Beat(sent_s=1.5, start_s=2.5, taken=3, halt="because")
    assert from_data(Beat, to_data(beat)) == beat
    done = Done(last=2, result=result())
    assert from_data(Done, to_data(done)) == done
    with pytest.raises(msgspec.ValidationError):
        from_data(Beat, {"sent_s": "now"})


def test_no_message_to_a_worker_has_a_place_for_a_key() -> None:
    share = deal(config(api_key_env="KEY", workers=2), schedule([item(0)]))[0]
    told = msgspec.to_builtins(share.config)
    assert {name for name in told if "key" in name} == {"api_key_env", "api_key_file"}
    assert told["api_key_env"] == "KEY"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("10.0.0.7", Place("10.0.0.7", 5557)),
        ("load-1.example:99", Place("load-1.example", 99)),
        ("[fe80::1]:7", Place("[fe80::1]", 7)),
    ],
)
def test_a_place_is_a_host_and_perhaps_a_port(text: str, place: Place) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize("text", ["", ":7", "h:x", "h:70000", "h:0", "http://h:1", "u@h", "h/1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not HOST or HOST:PORT"):
        place_of(text)


def test_nothing_can_be_sent_by_no_worker() -> None:
    with pytest.raises(UsageError, match="0 load workers"):
        replace(config(), workers=0)
