"""A stack that somebody else changes: the kit says what, waits, and reads back."""

import json
from collections.abc import Callable

from teardown.engines.protocol import Engine
from teardown.errors import EngineFailed, FeatureMissing
from teardown.records import Options, Stack
from teardown.settings import Access
from teardown.targets.changes import changes
from teardown.targets.endpoint import EndpointTarget


class ManualTarget:
    """A stack behind a URL whose operator sits at the kit.

    endpoint: the stack seen from outside. options: those that it has now, in the engine's names.
    tell: shows one text. ask: shows a question and returns the answer, as `input` does.
    """

    def __init__(
        self,
        endpoint: EndpointTarget,
        options: Options,
        *,
        access: Access | None = None,
        tell: Callable[[str], None] | None = None,
        ask: Callable[[str], str] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._original: Options = dict(options)
        self._present: Options = dict(options)
        self._tell, self._ask = tell, ask
        self.can_restart = (access or Access()).restart != "never"

    @property
    def url(self) -> str:
        """The base URL, which ends in /v1."""
        return self._endpoint.url

    @property
    def model(self) -> str:
        """The name that requests use."""
        return self._endpoint.model

    @property
    def engine(self) -> Engine:
        """The engine, as named or as found."""
        return self._endpoint.engine

    def recover(self) -> list[str]:
        """The kit cannot know what the operator did; `read_back` tells."""
        return []

    def start(self) -> None:
        """Check that the stack answers and serves the model."""
        self._endpoint.start()

    def stop(self) -> None:
        """The kit started nothing."""

    def apply(self, options: Options) -> None:
        """Have the operator run the stack with `options`; EngineFailed when it then does not."""
        if options == self._present:
            return
        if not self.can_restart:
            raise FeatureMissing(
                "access.restart is never, so no option can be changed; grant `window` or `yes`"
            )
        if self._tell is None or self._ask is None:
            raise FeatureMissing(
                "target.kind is manual, which needs somebody to answer; run this in a terminal"
            )
        lines = [f"  {option}: {old} -> {new}" for option, old, new in self._change_to(options)]
        self._tell(
            f"Change these options of {self.engine.name} at {self.url} and restart it:\n"
            + "\n".join(lines)
        )
        answer = self._ask("Press Enter when it serves again, or type `no` to leave it as it is: ")
        if answer.strip().lower() in ("n", "no"):
            raise EngineFailed("the operator left the options as they are")
        self._endpoint.forget()
        self.start()
        wrong = self.engine.mismatches(options, self._endpoint.read_back().effective)
        if wrong:
            raise EngineFailed("the engine does not run as asked: " + "; ".join(wrong))
        self._present = dict(options)

    def restore(self) -> None:
        """Have the operator put the original options back, where any was changed."""
        self.apply(self._original)

    def read_back(self) -> Stack:
        """Return the stack: what was asked of the operator, and what the endpoint says."""
        return self._stack(self._present)

    def original(self) -> Stack:
        """Return the stack as the client had it."""
        return self._stack(self._original)

    def died(self) -> str | None:
        """Unknown: the kit did not start it."""
        return None

    def pid(self) -> int | None:
        """Unknown."""
        return None

    def log_text(self) -> str:
        """Not to be had."""
        return ""

    def log_path(self) -> None:
        """Not to be had."""
        return

    def metrics_urls(self) -> list[str]:
        """Return the endpoint's metrics pages."""
        return self._endpoint.metrics_urls()

    def _change_to(self, options: Options) -> list[tuple[str, str, str]]:
        return [
            (c.option, _shown(c.before), _shown(c.after)) for c in changes(self._present, options)
        ]

    def _stack(self, options: Options) -> Stack:
        seen = self._endpoint.read_back()
        return Stack(
            engine=seen.engine,
            launcher="external",
            version=seen.version,
            model=seen.model,
            served_model=seen.served_model,
            options=dict(options),
            effective=seen.effective,
        )


def _shown(value: object) -> str:
    return "(engine's default)" if value is None else json.dumps(value)
