"""What is to improve: one metric of a run, which way is better, and how it is called."""

from typing import Literal, NamedTuple

from teardown.errors import FeatureMissing
from teardown.records import Quantiles, Run, Window

Better = Literal["higher", "lower"]
WindowName = Literal["plateau", "whole"]


class Metric(NamedTuple):
    """A metric by its name in `goal.metric`; unit is that of the value."""

    label: str
    unit: str
    better: Better


METRICS: dict[str, Metric] = {
    "ttft_p50": Metric("median time to first token", "s", "lower"),
    "e2e_p50": Metric("median request time", "s", "lower"),
    "tpot_p50": Metric("median time per output token", "s", "lower"),
    "output_tokens_per_s": Metric("output tokens per second", "tok/s", "higher"),
    "goodput_per_s": Metric("requests per second that keep the promise", "req/s", "higher"),
    "attainment": Metric("requests that keep the promise", "ratio", "higher"),
}
# Shown beside the goal metric on the first screen of the report, in this order.
BESIDE = ("output_tokens_per_s", "attainment", "ttft_p50", "e2e_p50")


def metric_named(name: str) -> Metric:
    """Return the metric called `name`; FeatureMissing for one that is not measured yet."""
    if name not in METRICS:
        raise FeatureMissing(
            f"goal.metric {name!r} is not measured yet; use one of {', '.join(METRICS)}"
        )
    return METRICS[name]


def value_of(run: Run, metric: str, window_name: WindowName = "plateau") -> float | None:
    """Return `metric` over one window; None for an invalid run or a withheld statistic."""
    if run.summary is None or run.validity.verdict == "invalid":
        return None
    window = run.summary.plateau if window_name == "plateau" else run.summary.whole
    if metric == "attainment":
        return window.attainment.value if window.attainment else None
    if metric in ("output_tokens_per_s", "goodput_per_s"):
        rate: float | None = getattr(window, metric)
        return rate
    return _median(window, metric)


def _median(window: Window, metric: str) -> float | None:
    by_metric: dict[str, Quantiles] = {
        "ttft_p50": window.ttft_s,
        "e2e_p50": window.e2e_s,
        "tpot_p50": window.tpot_s,
    }
    found = by_metric[metric].p50
    return found.value if found else None


def shared_window(before: Run, after: Run, metric: str) -> WindowName:
    """Return the window that both runs of a pair are judged by: the plateau where both have one.

    A fast stack may end its plateau before enough requests for a percentile were sent.
    """
    has_both = all(value_of(run, metric) is not None for run in (before, after))
    return "plateau" if has_both else "whole"
