"""Alerts that need a KV-cache gauge, a preemption counter or latency histograms (vLLM has them)."""

from iac.monitoring.rule import SCRAPE_S, Case, Rule, duration, steps
from iac.monitoring.table import Metrics
from teardown.settings import Promises

# vLLM preempts when no block is free; above this the next request may have to wait for memory.
KV_FULL_RATIO = 0.95
MEMORY_FOR_S = 300
# Site Reliability Workbook, chapter 5: burning the error budget at six times the sustainable rate,
# seen over a long and a short window, so that it fires late on noise and clears fast.
BURN_FACTOR = 6.0
BURN_WINDOWS_S = (3600, 300)
# Misses can at most be all requests; a threshold above this could never fire.
BURN_CEILING = 0.9
QUEUE_TIME_WINDOW_S = 900


def memory_rules(metrics: Metrics, selector: str, labels: str) -> list[Rule]:
    """Return the alerts on the KV cache; none for an engine without its metrics."""
    rules = []
    n = steps(MEMORY_FOR_S) * 3
    if metrics.kv_usage:
        usage, waiting = f"{metrics.kv_usage}{labels}", f"{metrics.waiting}{labels}"
        rules.append(
            Rule(
                alert="LLMCacheFull",
                expr=(
                    f"{metrics.kv_usage}{selector} > {KV_FULL_RATIO} "
                    f"and {metrics.waiting}{selector} > 0"
                ),
                for_s=MEMORY_FOR_S,
                severity="warning",
                summary="The KV cache is full and requests wait for it",
                because=f"more than {KV_FULL_RATIO:.0%} of the blocks are in use while some wait",
                firing=Case(series={usage: f"0.99x{n}", waiting: f"2x{n}"}, at_s=MEMORY_FOR_S + 60),
                quiet=Case(series={usage: f"0.99x{n}", waiting: f"0x{n}"}, at_s=MEMORY_FOR_S + 60),
            )
        )
    if metrics.preemptions:
        preempted = f"{metrics.preemptions}{labels}"
        window = duration(MEMORY_FOR_S)
        rules.append(
            Rule(
                alert="LLMPreemptions",
                expr=f"increase({metrics.preemptions}{selector}[{window}]) > 0",
                for_s=MEMORY_FOR_S,
                severity="warning",
                summary="Requests are thrown out of the KV cache and computed again",
                because="the accepted configuration was proven without lasting preemption",
                firing=Case(series={preempted: f"0+1x{n}"}, at_s=2 * MEMORY_FOR_S + 60),
                quiet=Case(series={preempted: f"7x{n}"}, at_s=2 * MEMORY_FOR_S + 60),
            )
        )
    return rules


def latency_rules(metrics: Metrics, selector: str, labels: str, promises: Promises) -> list[Rule]:
    """Return the alerts on the TTFT promise; none without a promise or without histograms."""
    bound = promises.ttft_s.seconds if promises.ttft_s else None
    if bound is None:
        return []
    rules = []
    if metrics.ttft and (bucket := _bucket(metrics, bound)) is not None:
        rules.append(_burn(metrics.ttft, selector, labels, promises.attainment, bound, bucket))
    if metrics.queue_time:
        rules.append(_queue_time(metrics.queue_time, selector, labels, bound))
    return rules


def _bucket(metrics: Metrics, bound: float) -> float | None:
    """Return the smallest histogram bound that is not below the promise."""
    return min((b for b in metrics.ttft_buckets_s if b >= bound), default=None)


def _burn(
    name: str, selector: str, labels: str, attainment: float, bound: float, bucket: float
) -> Rule:
    budget = 1 - attainment
    allowed = min(max(BURN_FACTOR * budget, 0.001), BURN_CEILING)
    inner, inner_labels = selector[:-1], labels[:-1]

    def misses(window_s: int) -> str:
        window = duration(window_s)
        kept = f'rate({name}_bucket{inner},le="{bucket}"}}[{window}])'
        return (
            f"1 - sum by (job, instance) ({kept}) "
            f"/ sum by (job, instance) (rate({name}_count{selector}[{window}])) > {allowed:.4g}"
        )

    long_s, short_s = BURN_WINDOWS_S
    n = steps(long_s) + 40

    def series(kept_per_scrape: int) -> dict[str, str]:
        return {
            f'{name}_bucket{inner_labels},le="{bucket}"}}': f"0+{kept_per_scrape}x{n}",
            f"{name}_count{labels}": f"0+1000x{n}",
        }

    return Rule(
        alert="LLMTimeToFirstTokenPromise",
        expr=f"({misses(long_s)}) and ({misses(short_s)})",
        for_s=2 * SCRAPE_S,
        severity="critical",
        summary=f"Too many requests wait longer than {bucket:g} s for their first token",
        because=(
            f"{attainment:.4g} of requests are promised a first token within {bound:g} s; "
            f"{allowed:.4g} missing it spends the budget {allowed / max(budget, 1e-9):.3g} times "
            f"too fast. The histogram's next bound is {bucket:g} s"
        ),
        firing=Case(series=series(0), at_s=long_s + 300),
        quiet=Case(series=series(1000), at_s=long_s + 300),
    )


def _queue_time(name: str, selector: str, labels: str, bound: float) -> Rule:
    window = duration(QUEUE_TIME_WINDOW_S)
    n = 2 * steps(QUEUE_TIME_WINDOW_S)
    slow, fast = f"{20 * bound:g}", f"{bound:g}"  # ten requests a scrape: mean 2x and 0.1x
    return Rule(
        alert="LLMQueueTime",
        expr=f"rate({name}_sum{selector}[{window}]) / rate({name}_count{selector}[{window}]) > "
        f"{bound:g}",
        for_s=QUEUE_TIME_WINDOW_S // 3,
        severity="warning",
        summary="Requests wait in the queue longer than the whole promise allows",
        because=f"the first token is promised within {bound:g} s, and waiting alone takes that",
        firing=Case(
            series={f"{name}_sum{labels}": f"0+{slow}x{n}", f"{name}_count{labels}": f"0+10x{n}"},
            at_s=2 * QUEUE_TIME_WINDOW_S - 60,
        ),
        quiet=Case(
            series={f"{name}_sum{labels}": f"0+{fast}x{n}", f"{name}_count{labels}": f"0+10x{n}"},
            at_s=2 * QUEUE_TIME_WINDOW_S - 60,
        ),
    )
