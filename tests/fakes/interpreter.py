"""An interpreter that runs the load process with something befalling it: stalls, a stepped clock.

    run_load(config, quiet, python=disturbed(folder, stall(at_s=0.3, length_s=0.2)))

The load process is started as in use; times count from the moment at which it begins to send.
"""

import sys
from pathlib import Path

PROGRAM = """#!{python}
import runpy, sys
sys.path.insert(0, {root!r})  # a script's own folder stands where -m puts the working directory
import locust, gevent, gevent.event, time
from gevent.monkey import get_original

really_sleep = get_original("time", "sleep")
began = gevent.event.Event()
began_at = []
{body}
from teardown.load.sender import Sender
begin = Sender.begin
def begin_and_tell(self, zero_s):
    begin(self, zero_s)
    began_at.append(time.monotonic())
    began.set()
Sender.begin = begin_and_tell
assert sys.argv[1] == "-m"
name, sys.argv = sys.argv[2], sys.argv[2:]
runpy.run_module(name, run_name="__main__", alter_sys=True)
"""


def disturbed(folder: Path, body: str) -> str:
    """Write the interpreter into `folder`; return its path."""
    path = folder / "python"
    root = str(Path(__file__).parents[2])
    path.write_text(PROGRAM.format(python=sys.executable, root=root, body=body))
    path.chmod(0o755)
    return str(path)


def stall(*, at_s: float, length_s: float, every_s: float | None = None) -> str:
    """The process stands still for `length_s` at `at_s`; then again, `every_s` after each end."""
    return f"""
def stand_still():
    began.wait()
    gevent.sleep({at_s})
    while True:
        really_sleep({length_s})
        if {every_s} is None:
            return
        gevent.sleep({every_s})
gevent.spawn(stand_still)
"""


def step_wall_clock(*, by_s: float, at_s: float) -> str:
    """Somebody sets the clock by `by_s` at `at_s`."""
    return f"""
wall, wall_ns = time.time, time.time_ns
def moved_s():
    return {by_s} if began_at and time.monotonic() - began_at[0] > {at_s} else 0
time.time = lambda: wall() + moved_s()
time.time_ns = lambda: wall_ns() + int(moved_s() * 1e9)
"""
