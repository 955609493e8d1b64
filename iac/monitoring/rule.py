"""One alert rule with what proves it: a series that fires it and one that does not."""

from dataclasses import dataclass

# Rates and tests assume this scrape interval; the shortest window used is twenty scrapes.
SCRAPE_S = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Input of one promtool test: series in promtool's notation, one value per `SCRAPE_S`.

    at_s: when the alert is asked for.
    """

    series: dict[str, str]
    at_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alert. expr must keep the labels `job` and `instance`; for_s: how long it must hold.

    summary, because: annotations, plain text; `because` says where the threshold comes from.
    """

    alert: str
    expr: str
    for_s: int
    severity: str
    summary: str
    because: str
    firing: Case
    quiet: Case


def duration(seconds: float) -> str:
    """Return whole seconds as Prometheus writes them, such as `90s` or `10m`."""
    whole = round(seconds)
    for unit, size in (("h", 3600), ("m", 60)):
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def steps(seconds: float) -> int:
    """Return how many scrapes fit into `seconds`."""
    return round(seconds / SCRAPE_S)
