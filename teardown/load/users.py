"""Locust users that carry out the sender's jobs; imported by the load process alone.

Importing Locust patches the sockets, threads and TLS of its whole process. Its statistics are not
used: numbers come from the records.
"""

from collections.abc import Callable
from typing import Any

import gevent.event
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser


class Gate:
    """Hands one job to each user, and lets them all begin at one moment."""

    def __init__(self, jobs: list[Callable[[], None]]) -> None:
        self._jobs = list(reversed(jobs))
        self._num_waiting = 0
        self._num_left = len(jobs)
        self._total = len(jobs)
        self._ready, self._open, self._done = (gevent.event.Event() for _ in range(3))
        if not jobs:
            self._ready.set()
            self._done.set()

    def work(self) -> None:
        """Take a job, wait for the start, do it."""
        job = self._jobs.pop()
        self._num_waiting += 1
        if self._num_waiting == self._total:
            self._ready.set()
        self._open.wait()
        try:
            job()
        finally:
            self._num_left -= 1
            if self._num_left == 0:
                self._done.set()

    def run(self, begin: Callable[[], None]) -> None:
        """Wait for all users, call `begin`, let them go and wait until they are done."""
        self._ready.wait()
        begin()
        self._open.set()
        self._done.wait()


class LoadUser(User):  # type: ignore[misc]
    """One closed-loop lane, or the dispatcher of an open loop."""

    @task  # type: ignore[untyped-decorator]
    def work(self) -> None:
        """Do one job and leave."""
        self.environment.gate.work()
        raise StopUser


def load_environment() -> Any:
    """Return the environment that load users live in, without a runner yet."""
    return Environment(user_classes=[LoadUser], catch_exceptions=True)


def run_users(jobs: list[Callable[[], None]], begin: Callable[[], None]) -> None:
    """Run every job in a user of its own; `begin` is called when all of them stand ready."""
    environment = load_environment()
    environment.gate = Gate(jobs)
    runner = environment.create_local_runner()
    try:
        if jobs:
            runner.start(user_count=len(jobs), spawn_rate=len(jobs))
        environment.gate.run(begin)
    finally:
        runner.quit()


def run_users_of_worker(
    runner: Any, jobs: list[Callable[[], None]], begin: Callable[[], None]
) -> None:
    """Do the same with the runner of a worker, which stays: its messages go on.

    The number of users is the worker's own: a master would deal users, not lanes.
    """
    runner.environment.gate = Gate(jobs)
    if jobs:
        runner.start_worker({LoadUser.__name__: len(jobs)})
    runner.environment.gate.run(begin)
