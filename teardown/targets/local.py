"""A stack that the kit itself runs on this host."""

import logging
import os
from dataclasses import replace
from pathlib import Path

from teardown.engines.protocol import Command, Counters, Engine, Launch
from teardown.errors import EngineFailed, FeatureMissing, TargetError
from teardown.http import fetch
from teardown.records import Options, Stack
from teardown.settings import Access
from teardown.targets import ports, process, state
from teardown.targets.changes import changes

HOST = "127.0.0.1"
DRAIN_S = 10.0

log = logging.getLogger(__name__)


class LocalTarget:
    """One engine as a child process; the options of `launch` are the client's original ones.

    folder: the engagement's; state, configuration and log lie in its `target/`. port: None takes a
    free one. A server never outlives the kit, so each verb starts its own.
    """

    def __init__(
        self,
        engine: Engine,
        launch: Launch,
        folder: Path,
        *,
        port: int | None = None,
        host: str = HOST,
        access: Access | None = None,
        drain_s: float = DRAIN_S,
    ) -> None:
        self.engine, self.launch = engine, launch
        self.access = access or Access()
        self.model = launch.served_model
        self.can_restart = self.access.restart != "never"
        self.folder = folder / "target"
        self.host, self.port = host, port or ports.free_port(host)
        self.url = ports.base_url(host, self.port)
        self.present: Options = dict(launch.options)
        self.drain_s = drain_s
        self._process: process.ServerProcess | None = None
        self._effective: Options = {}
        self._version: str | None = None

    def recover(self) -> list[str]:
        """End a server that a killed kit left, and forget its options; say what was done."""
        left = state.load(self._state_path)
        if left is None or self._process is not None:
            return []
        kit_lives = left.kit_start_ticks is not None and (
            process.start_ticks(left.kit_pid) == left.kit_start_ticks
        )
        if kit_lives and left.kit_pid != os.getpid():
            raise TargetError(
                f"another teardown (process {left.kit_pid}) is using this stack; let it end first"
            )
        done = []
        if left.pid is not None and process.kill_survivor(left.pid, left.start_ticks):
            done.append(f"ended the engine that an earlier run left (process {left.pid})")
        if left.present != left.original:
            back = ", ".join(map(str, changes(left.present, left.original)))
            done.append(f"put the original options back: {back}")
        self.present = dict(self.launch.options)
        self._state_path.unlink(missing_ok=True)
        return done

    def start(self) -> None:
        """Have the engine running with its present options; no-op where it is."""
        if self._process is None or self._process.exit_code() is not None:
            self._start(self.present)
            for sentence in self.engine.mismatches(self.present, self._effective):
                log.warning("%s", sentence)

    def stop(self) -> None:
        """End the engine: drain, SIGTERM, SIGKILL by deadline."""
        if self._process is not None:
            self._process.stop(self.drain_s, self._is_idle)
            self._process = None
            self._save(self.present)

    def apply(self, options: Options) -> None:
        """Run the engine with exactly `options`; else EngineFailed, and the former ones run again.

        No restart where they already run. The original options are the client's, as they come up.
        """
        if options == self.present:
            self.start()
            return
        if not self.can_restart:
            raise FeatureMissing(
                "access.restart is never, so no option can be changed; grant `window` or `yes`"
            )
        self._command(options)  # an option that the engine does not know costs no restart
        former, was_running = self.present, self._process is not None
        self._save(options)
        try:
            self.stop()
            self._start(options)
            wrong = self.engine.mismatches(options, self._effective)
            if wrong and options != self.launch.options:
                raise EngineFailed("the engine does not run as asked: " + "; ".join(wrong))
        except BaseException as error:
            self._go_back(former, was_running, error)
            raise

    def restore(self) -> None:
        """Run (or leave ready to run) the original options."""
        if self.present == self.launch.options:
            return
        if self._process is None:
            self.present = dict(self.launch.options)
            self._save(self.present)
        else:
            self.apply(dict(self.launch.options))

    def read_back(self) -> Stack:
        """Return the stack with the options that it says are in force."""
        return self._stack(self.present, self._effective if self._process else {})

    def original(self) -> Stack:
        """Return the stack as the client had it."""
        return self._stack(self.launch.options, {})

    def died(self) -> str | None:
        """Return one sentence when the engine ended by itself; None while it runs."""
        code = self._process.exit_code() if self._process else None
        if self._process is None or code is None:
            return None
        how = f"was ended by signal {code - 128}" if code > 128 else f"ended with code {code}"
        text = self._process.log() if self.access.logs == "read" else ""
        why = self.engine.startup_error(text) or process.last_line(text)
        return f"the engine (process {self._process.pid}) {how}" + (f": {why}" if text else "")

    def pid(self) -> int | None:
        """Return the engine's process id; None where access.host is none, or nothing runs."""
        granted = self.access.host != "none"
        return self._process.pid if self._process and granted else None

    def log_text(self) -> str:
        """Return the engine's log since its last start; empty where access.logs is none."""
        path = self.log_path()
        return path.read_text(encoding="utf-8", errors="replace") if path else ""

    def log_path(self) -> Path | None:
        """Return the log's file, where there is one and logs are granted."""
        path = self.folder / "engine.log"
        return path if self.access.logs == "read" and path.is_file() else None

    def metrics_urls(self) -> list[str]:
        """Return the engine's one metrics page; empty where it is not granted or absent."""
        url = self.engine.metrics_url(self.url)
        off = self.present.get("metrics") is False
        return [url] if url and self.access.metrics == "read" and not off else []

    @property
    def _state_path(self) -> Path:
        return self.folder / "state.json"

    def _start(self, options: Options) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self._command(options)
        ports.check_free(self.host, self.port)
        for name, text in command.files.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        self._process = process.ServerProcess(
            command.argv, command.env, self.folder, self.folder / "engine.log"
        )
        self.present = dict(options)
        self._save(options)
        launch = replace(self.launch, options=options)
        limit_s = self.engine.launch_spec(launch).start_timeout_s
        try:
            self._process.wait_healthy(
                lambda: self.engine.is_healthy(self.url), self.engine.startup_error, limit_s
            )
            text = self._process.log()
            self._effective = self.engine.effective(launch, self.url, text)
            self._version = self.engine.version(launch, text)
        except BaseException:
            self._process.kill()
            self._process = None
            raise

    def _command(self, options: Options) -> Command:
        return self.engine.command(
            replace(self.launch, options=options),
            host=self.host,
            port=self.port,
            workdir=self.folder.resolve(),
        )

    def _go_back(self, former: Options, was_running: bool, error: BaseException) -> None:
        """Put `former` back after a failed change; a second failure is added to the first."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self.present = former
        self._save(former)
        if was_running:
            try:
                self._start(former)
            except TargetError as again:
                error.add_note(f"the former options did not come up again either: {again}")
                log.error("the former options did not come up again: %s", again)

    def _save(self, options: Options) -> None:
        running = self._process
        state.save(
            self._state_path,
            state.TargetState(
                original=self.launch.options,
                present=options,
                url=self.url,
                port=self.port,
                kit_pid=os.getpid(),
                kit_start_ticks=process.start_ticks(os.getpid()),
                pid=running.pid if running else None,
                start_ticks=running.start_ticks if running else None,
            ),
        )

    def _stack(self, options: Options, effective: Options) -> Stack:
        return Stack(
            engine=self.engine.name,
            launcher=self.launch.launcher,
            version=self._version or self.engine.version(self.launch, ""),
            model=self.launch.model or self.launch.served_model,
            served_model=self.launch.served_model,
            options=dict(options),
            effective=dict(effective),
        )

    def _is_idle(self) -> bool:
        """True when nothing runs or waits, or when the engine has no page that would say."""
        url = self.engine.metrics_url(self.url)
        if url is None:
            return True
        try:
            now: Counters = self.engine.counters(fetch(url, timeout_s=2.0))
        except TargetError:
            return True
        return not now.running and not now.waiting
