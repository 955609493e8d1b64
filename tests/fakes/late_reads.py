"""An interpreter for the load process in which every read of the wire is late."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def late_python(folder: Path, delay_s: float, *, with_stamps: bool = True) -> str:
    """Write a stand-in for `python` into `folder` and return its path.

    It runs `-m teardown.load.process` with reads that wait for their bytes, and then `delay_s` more
    before they take them. with_stamps: False: as on a system without kernel stamps.
    """
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"from tests.fakes.late_reads import run; run({delay_s!r}, {with_stamps!r})"
    )
    path = folder / "late-python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def run(delay_s: float, with_stamps: bool) -> None:
    """Be the load process; the arguments are `-m teardown.load.process CONFIG`."""
    import gevent

    from teardown.load import (
        process,  # first: importing it patches the interpreter
        wire,
    )

    def read_late(self: wire.Wire, take: wire.Take) -> None:
        while True:
            self._hub.wait(self._readable)
            gevent.sleep(delay_s)
            if take(*self.read()):
                return

    wire.Wire.read_until = read_late  # type: ignore[method-assign]
    if not with_stamps:
        wire._ask_for_stamps = lambda connection: False
    process.end_now(process.main(sys.argv[3:]))
