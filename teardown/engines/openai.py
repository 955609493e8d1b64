"""Any other OpenAI-compatible server: it can be loaded and timed, nothing else is known of it."""

from pathlib import Path
from typing import ClassVar

from teardown.engines.pages import model_rows
from teardown.engines.protocol import Command, Counters, Detected, Launch
from teardown.errors import FeatureMissing
from teardown.records import LaunchSpec, Options


class OpenAiCompatible:
    """A server behind /v1 whose engine is not known to the kit."""

    name: ClassVar[str] = "openai"
    launchers: ClassVar[tuple[str, ...]] = ()

    def detect(self, url: str, *, api_key: str | None = None) -> Detected | None:
        """Recognise anything that lists models."""
        rows = model_rows(url, api_key)
        if not rows:
            return None
        owner = rows[0].get("owned_by")
        return Detected(
            engine=self.name,
            version=None,
            models=[str(row["id"]) for row in rows],
            options={},
            because=f"/v1/models answers; it is owned by {owner!r}, which is no engine known here",
        )

    def command(self, launch: Launch, *, host: str, port: int, workdir: Path) -> Command:
        """FeatureMissing: the kit cannot start what it does not know."""
        raise FeatureMissing(f"the kit cannot start {launch.launcher!r}; it knows no such engine")

    def is_healthy(self, url: str) -> bool:
        """True once /v1/models lists a model."""
        return bool(model_rows(url))

    def effective(
        self, launch: Launch, url: str, log: str, *, api_key: str | None = None
    ) -> Options:
        """Nothing is known."""
        return {}

    def mismatches(self, asked: Options, effective: Options) -> list[str]:
        """Nothing can be compared."""
        return []

    def startup_error(self, log: str) -> str | None:
        """Nothing is known of its log."""
        return None

    def metrics_url(self, url: str) -> str | None:
        """Its metrics, where there are any, have names that the kit does not know."""
        return None

    def counters(self, page: str) -> Counters:
        """Nothing is known of its metrics."""
        return Counters()

    def launch_spec(self, launch: Launch) -> LaunchSpec:
        """FeatureMissing: as for command."""
        raise FeatureMissing(f"the kit cannot start {launch.launcher!r}; it knows no such engine")

    def version(self, launch: Launch, log: str) -> str | None:
        """Nothing is known."""
        return None
