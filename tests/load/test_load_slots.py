import gevent

from teardown.load.slots import Slots


def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    slots, order = Slots(1), []

    def use(name: int) -> None:
        with slots:
            order.append(name)
            gevent.sleep(0)

    greenlets = [gevent.spawn(use, n) for n in range(4)]
    gevent.sleep(0)
    greenlets += [gevent.spawn(use, n) for n in range(4, 8)]
    gevent.joinall(greenlets)
    assert order == list(range(8))


def test_a_waiter_that_is_killed_leaves_its_place_to_the_next() -> None:
    slots, order = Slots(1), []

    def use(name: str) -> None:
        with slots:
            order.append(name)

    with slots:
        waiting = [gevent.spawn(use, name) for name in "abc"]
        gevent.sleep(0)
        waiting[0].kill()
    waiting[1].kill()  # its turn has come: taken or not, the next one follows
    gevent.joinall(waiting)
    assert "a" not in order
    assert order[-1] == "c"


def test_without_a_number_nobody_waits() -> None:
    with (slots := Slots(None)), slots, slots:
        pass
