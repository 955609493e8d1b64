import pytest

from teardown.load.clock import StampClock

SECOND = 1_000_000_000


class Clocks:
    """Both clocks of a host; each look takes `cost` nanoseconds."""

    def __init__(self, wall: int = 500 * SECOND, cost: int = 100) -> None:
        self.now, self.wall, self.cost = 10 * SECOND, wall, cost

    def monotonic(self) -> int:
        self.advance(self.cost)
        return self.now

    def realtime(self) -> int:
        self.advance(self.cost)
        return self.wall

    def advance(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        self.wall += nanoseconds


def test_a_kernel_stamp_becomes_monotonic() -> None:
    host = Clocks()
    clock = StampClock(host.monotonic, host.realtime)
    arrived_wall, arrived = host.wall, host.now
    host.advance(3_000_000)
    reading = clock.read(arrived_wall)
    assert reading.stamp_s == pytest.approx(arrived / 1e9, abs=1e-6)
    assert reading.read_s == pytest.approx(arrived / 1e9 + 0.003, abs=1e-5)
    assert clock.num_moves == 0


def test_case_38_a_step_of_the_wall_clock_drops_the_stamp_and_is_counted() -> None:
    host = Clocks()
    clock = StampClock(host.monotonic, host.realtime)
    stamp = host.wall
    host.wall -= 5 * SECOND
    assert clock.read(stamp).stamp_s is None
    assert clock.num_moves == 1
    assert clock.moved_s == pytest.approx(5, abs=1e-3)
    assert clock.read(host.wall).stamp_s == pytest.approx(host.now / 1e9, abs=1e-5)
    assert clock.num_moves == 1


def test_slow_drift_keeps_the_stamps_and_adds_up() -> None:
    host = Clocks()
    clock = StampClock(host.monotonic, host.realtime)
    for _ in range(10):
        host.wall += 500_000
        assert clock.read(host.wall).stamp_s is not None
    assert clock.num_moves == 0
    assert clock.moved_s == pytest.approx(0.005, abs=1e-4)


def test_a_stamp_is_never_later_than_its_read() -> None:
    host = Clocks()
    clock = StampClock(host.monotonic, host.realtime)
    reading = clock.read(host.wall + 400_000)
    assert reading.stamp_s == reading.read_s


def test_without_a_stamp_there_is_only_the_time_of_the_read() -> None:
    assert StampClock().read(None).stamp_s is None
