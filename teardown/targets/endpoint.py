"""A stack of which the kit has nothing but a URL."""

import difflib
from pathlib import Path

from teardown.engines import detect
from teardown.engines.protocol import Detected, Engine
from teardown.errors import FeatureMissing, TargetError
from teardown.records import Options, Stack
from teardown.settings import Access


class EndpointTarget:
    """Measured from outside; nothing can be changed. engine: None asks the endpoint what it is."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        engine: Engine | None = None,
        metrics: str | list[str] = "auto",
        access: Access | None = None,
        api_key: str | None = None,
    ) -> None:
        self.url, self.model = url, model
        self.access = access or Access()
        self.can_restart = False
        self._engine = engine
        self._metrics = metrics
        self._api_key = api_key
        self._detected: Detected | None = None

    @property
    def engine(self) -> Engine:
        """The engine, as named or as found; asks the endpoint where neither is known yet."""
        if self._engine is None:
            self._probe()
        assert self._engine is not None  # _probe sets it or raises
        return self._engine

    def recover(self) -> list[str]:
        """Nothing was changed."""
        return []

    def start(self) -> None:
        """Check that the endpoint answers and serves the model; TargetError otherwise."""
        models = self._probe().models
        if not self.model and len(models) == 1:
            self.model = models[0]
        if self.model not in models:
            near = difflib.get_close_matches(self.model, models, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TargetError(
                f"{self.url} does not serve {self.model!r}{hint} (it serves {', '.join(models)})"
            )

    def stop(self) -> None:
        """The kit started nothing."""

    def apply(self, options: Options) -> None:
        """FeatureMissing: a URL cannot be changed."""
        raise FeatureMissing(
            "target.kind is endpoint, so the kit cannot change the stack; use kind `manual` to be "
            "told each change, or `local` to let the kit run the engine"
        )

    def restore(self) -> None:
        """Nothing was changed."""

    def read_back(self) -> Stack:
        """Return what the endpoint says it is and runs."""
        found = self._probe()
        return Stack(
            engine=self.engine.name,
            launcher="external",
            version=found.version,
            model=self.model,
            served_model=self.model,
            options=dict(found.options),
            effective=dict(found.options),
        )

    def original(self) -> Stack:
        """Return the stack as it is; nothing changes it."""
        return self.read_back()

    def died(self) -> str | None:
        """Unknown: the kit did not start it."""
        return None

    def pid(self) -> int | None:
        """Unknown."""
        return None

    def log_text(self) -> str:
        """Not to be had."""
        return ""

    def log_path(self) -> Path | None:
        """Not to be had."""
        return None

    def metrics_urls(self) -> list[str]:
        """Return the pages that the settings name, else the engine's own; empty if not granted."""
        if self.access.metrics == "none" or self._metrics == "none":
            return []
        if isinstance(self._metrics, list):
            return list(self._metrics)
        if self._metrics != "auto":
            return [self._metrics]
        url = self.engine.metrics_url(self.url)
        return [url] if url else []

    def forget(self) -> None:
        """Ask the endpoint again what it is and runs, at the next question."""
        self._detected = None

    def _probe(self) -> Detected:
        if self._detected is None:
            if self._engine is None:
                self._engine, self._detected = detect(self.url, api_key=self._api_key)
            else:
                self._detected = self._engine.detect(self.url, api_key=self._api_key)
        if self._detected is None:
            other, found = detect(self.url, api_key=self._api_key)
            raise TargetError(
                f"{self.url} is no {self.engine.name} ({found.because}); "
                f"set target.engine to {other.name!r} or auto"
            )
        return self._detected
