"""Run one server so that nothing of it outlives the kit; stands alone, started by `process.py`.

    python guard.py KIT_PID FD -- COMMAND...

The server leads a session of its own, so its children can be ended with it: vLLM's EngineCore
survives a SIGKILL of its API server and keeps the GPU (vllm-project/vllm#55510). When the kit
dies, the kernel sends this process SIGTERM, and it kills the server and all that came of it. When
this process dies, the kernel kills the server. The server's process id is written to FD at once.
Ends with the server's exit code, or 128 + the signal that ended it.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_LIMIT_S = 20
POLL_S = 0.01
START_FAILED = 127


def end_with_parent(signal_number: int, parent: int) -> None:
    """Have the kernel send this process `signal_number` when `parent` dies; end if it is dead."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(START_FAILED)


def kill_group(group: int) -> None:
    """Kill every process of `group`; no error when there is none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def end_all(code: int) -> NoReturn:
    """Kill what is left of the server, in whatever session, and end with `code` when it is gone.

    Orphans become children of this process (it is a subreaper), so that none is missed.
    """
    signal.signal(signal.SIGALRM, lambda *_: os._exit(code))
    signal.alarm(END_LIMIT_S)  # a process in an uninterruptible wait cannot be waited for
    while True:
        for task in Path("/proc/self/task").glob("*/children"):
            for child in task.read_text().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            os._exit(code)
        if not ended:
            time.sleep(POLL_S)  # the kernel's list of children may miss one that is just forking


def main() -> None:
    """Start the command, report its process id, and end as it ends."""
    kit, channel, _, *command = sys.argv[1:]
    server = 0

    def kit_died(_signal: int, _frame: object) -> None:
        if server:
            kill_group(server)
        end_all(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, kit_died)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    end_with_parent(signal.SIGTERM, int(kit))
    me = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = os.fork()
    if server == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.setsid()
        end_with_parent(signal.SIGKILL, me)
        os.close(int(channel))
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"guard: {command[0]} cannot be started: {error.strerror}\n".encode())
            os._exit(START_FAILED)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.write(int(channel), str(server).encode())
    os.close(int(channel))
    _, status = os.waitpid(server, 0)
    kill_group(server)  # what the server left behind
    code = os.waitstatus_to_exitcode(status)
    end_all(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
