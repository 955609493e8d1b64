"""A number with its uncertainty."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`value` with the 95 % interval `low` to `high` from `n` observations by `method`.

    `low` and `high` are None where no interval can be given; `method` then says why.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    method: str

    @property
    def has_interval(self) -> bool:
        """True where both ends are known."""
        return self.low is not None and self.high is not None

    @property
    def excludes_one(self) -> bool:
        """True when the interval of a ratio leaves out "no change"."""
        return self.low is not None and self.high is not None and (self.low > 1 or self.high < 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Percentiles of one metric over one window; one with too few samples is None.

    `withheld` gives the reason by percentile name. Unit: that of the metric.
    """

    n: int
    mean: float | None
    p50: Estimate | None
    p90: Estimate | None
    p95: Estimate | None
    p99: Estimate | None
    withheld: dict[str, str]
