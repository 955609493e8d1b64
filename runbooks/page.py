"""What one alert's page says: prose, and steps that are commands with what they should show."""

from dataclasses import dataclass

from runbooks.names import Names
from teardown.records import Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do. commands: (where it applies, the command); expect, otherwise: sentences."""

    text: str
    commands: list[tuple[str, str]]
    expect: str
    otherwise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One alert's page."""

    meaning: str
    impact: str
    diagnosis: list[Step]
    mitigation: list[Step]


def per_way(names: Names, command: str) -> list[tuple[str, str]]:
    """Return the command called `command` of every way to run the server."""
    return [(way.name, getattr(way, command)) for way in names.ways]


def status_step(names: Names) -> Step | None:
    """Return the step that asks whether the server runs; None where the kit does not start it."""
    if not names.ways:
        return None
    shows = "; ".join(f"{way.status_shows} ({way.name})" for way in names.ways)
    return Step(
        text="Is it running?",
        commands=per_way(names, "status"),
        expect=shows,
        otherwise="read why it ended, in the next step",
    )


def logs_step(names: Names, look_for: str) -> Step | None:
    """Return the step that reads the log; None where the kit does not know where it is."""
    if not names.ways:
        return None
    return Step(
        text="Read the end of the log.",
        commands=per_way(names, "logs"),
        expect="no line with `error`, `failed` or `out of memory`",
        otherwise=look_for,
    )


def restart_step(names: Names) -> Step:
    """Return the step that restarts the server."""
    return Step(
        text="Restart it. Running requests get time to finish; their clients may have to retry.",
        commands=per_way(names, "restart"),
        expect="the command returns without an error once the server answers",
        otherwise="roll back, below",
    )


def health_step(names: Names) -> Step:
    """Return the step that asks the health page."""
    return Step(
        text="Does it answer?",
        commands=[("any", names.health_command)],
        expect="`200`",
        otherwise=(
            "`503` means that the model is still loading: wait; a connection error means that "
            "nothing listens"
        ),
    )


def metrics_step(names: Names, metrics: list[str], expect: str, otherwise: str) -> Step | None:
    """Return the step that reads `metrics`; None without a metrics page."""
    command = names.metrics_command(metrics)
    if command is None:
        return None
    return Step(
        text="What does the engine say?",
        commands=[("any", command)],
        expect=expect,
        otherwise=otherwise,
    )


def kept(*steps: Step | None) -> list[Step]:
    """Return the steps that this bundle has."""
    return [step for step in steps if step is not None and step.commands]


def unknown_page(alert: Alert, names: Names) -> Page:
    """Return a page for an alert that no function describes: its rule, and the common steps."""
    return Page(
        meaning=f"{alert.summary}.",
        impact="Not described; judge it by the measurements of the report.",
        diagnosis=kept(health_step(names), logs_step(names, "act on what it names")),
        mitigation=kept(restart_step(names)),
    )
