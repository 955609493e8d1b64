"""The alerts of one deployment; thresholds come from the engagement, each says from where."""

from iac.deployment import Deployment
from iac.monitoring.rule import Case, Rule, duration, steps
from iac.monitoring.table import Metrics
from iac.monitoring.vllm_alerts import latency_rules, memory_rules
from iac.render import RESTART_LIMIT, RESTART_WINDOW_S, start_timeout_s

# A server that restarts normally is back within its start time-out; below 30 s a scrape or two
# may have been lost, above 5 min people have noticed themselves.
DOWN_BOUNDS_S = (30, 300)
STALL_S = 120
QUEUE_WINDOW_S = 600
# Half of the proven throughput with every slot busy is outside any spread between runs that the
# proof would have passed; longer answers or prompts than the measured ones can still cause it.
COLLAPSE_RATIO = 0.5
COLLAPSE_WINDOW_S = 600
RESTARTS = 3


def rules_of(deployment: Deployment, metrics: Metrics) -> list[Rule]:
    """Return the alerts that `metrics` allow, most urgent first."""
    selector = f'{{job="{deployment.service}"}}'
    labels = f'{{job="{deployment.service}",instance="a"}}'
    slots = metrics.slots(deployment.stack)
    rules = [
        _down(deployment, selector, labels),
        _stalled(metrics, selector, labels),
        _restarting(metrics, selector, labels),
        _queue_growing(metrics, selector, labels, slots),
    ]
    if deployment.baseline_tokens_per_s:
        baseline = deployment.baseline_tokens_per_s
        rules.append(_collapsed(metrics, selector, labels, slots, baseline))
    rules += memory_rules(metrics, selector, labels)
    rules += latency_rules(metrics, selector, labels, deployment.promises)
    return rules


def _down(deployment: Deployment, selector: str, labels: str) -> Rule:
    low, high = DOWN_BOUNDS_S
    for_s = min(max(start_timeout_s(deployment) // 2, low), high)
    return Rule(
        alert="LLMServerDown",
        expr=f"up{selector} == 0",
        for_s=for_s,
        severity="critical",
        summary="The LLM server does not answer its metrics page",
        because=f"a normal restart takes less than {for_s} s",
        firing=Case(series={f"up{labels}": f"1 0x{steps(for_s) + 8}"}, at_s=for_s + 60),
        quiet=Case(series={f"up{labels}": f"1x{steps(for_s) + 8}"}, at_s=for_s + 60),
    )


def _stalled(metrics: Metrics, selector: str, labels: str) -> Rule:
    n = steps(STALL_S) + 8
    return Rule(
        alert="LLMServerStalled",
        expr=f"{metrics.waiting}{selector} > 0 and {metrics.running}{selector} == 0",
        for_s=STALL_S,
        severity="critical",
        summary="Requests wait and none runs",
        because="a scheduler with work and free slots starts it at once",
        firing=Case(
            series={f"{metrics.waiting}{labels}": f"3x{n}", f"{metrics.running}{labels}": f"0x{n}"},
            at_s=STALL_S + 60,
        ),
        quiet=Case(
            series={f"{metrics.waiting}{labels}": f"3x{n}", f"{metrics.running}{labels}": f"1x{n}"},
            at_s=STALL_S + 60,
        ),
    )


def _restarting(metrics: Metrics, selector: str, labels: str) -> Rule:
    window = duration(RESTART_WINDOW_S)
    up, work = f"up{labels}", f"{metrics.steps}{labels}"
    n = steps(RESTART_WINDOW_S)
    return Rule(
        alert="LLMServerRestarting",
        # a restart shows as a gap in `up`, or, between two scrapes, as a counter that starts again
        expr=(
            f"changes(up{selector}[{window}]) >= {2 * RESTARTS} "
            f"or resets({metrics.steps}{selector}[{window}]) >= {RESTARTS}"
        ),
        for_s=0,
        severity="critical",
        summary="The LLM server restarts again and again",
        because=f"after {RESTART_LIMIT} starts in {window} its supervisor leaves it down",
        firing=Case(
            series={up: " ".join(["1x6", "0x1"] * (n // 8)), work: f"0x{n}"},
            at_s=RESTART_WINDOW_S - 60,
        ),
        quiet=Case(
            series={up: f"1x9 0x1 1x{n}", work: f"0+5x9 0+5x{n}"},
            at_s=RESTART_WINDOW_S - 60,
        ),
    )


def _queue_growing(metrics: Metrics, selector: str, labels: str, slots: int) -> Rule:
    window, waiting = duration(QUEUE_WINDOW_S), f"{metrics.waiting}{selector}"
    n = 2 * steps(QUEUE_WINDOW_S)
    return Rule(
        alert="LLMQueueGrowing",
        expr=(f"min_over_time({waiting}[{window}]) >= {slots} and deriv({waiting}[{window}]) > 0"),
        for_s=QUEUE_WINDOW_S // 2,
        severity="warning",
        summary="Requests come faster than they are answered",
        because=(
            f"{slots} requests run at once; with {slots} waiting, each one waits for a whole turn "
            f"of others, and for {window} it never was fewer and grew"
        ),
        firing=Case(
            series={f"{metrics.waiting}{labels}": f"{2 * slots}+1x{n}"},
            at_s=2 * QUEUE_WINDOW_S - 60,
        ),
        quiet=Case(
            series={f"{metrics.waiting}{labels}": f"{2 * slots}x{n}"},
            at_s=2 * QUEUE_WINDOW_S - 60,
        ),
    )


def _collapsed(metrics: Metrics, selector: str, labels: str, slots: int, baseline: float) -> Rule:
    window, floor = duration(COLLAPSE_WINDOW_S), baseline * COLLAPSE_RATIO
    n = 2 * steps(COLLAPSE_WINDOW_S)
    tokens, running = f"{metrics.output_tokens}{labels}", f"{metrics.running}{labels}"
    slow, fast = (max(1, round(15 * baseline * ratio)) for ratio in (0.2, 1.0))
    return Rule(
        alert="LLMThroughputCollapsed",
        expr=(
            f"rate({metrics.output_tokens}{selector}[{window}]) < {floor:.6g} "
            f"and min_over_time({metrics.running}{selector}[{window}]) >= {slots}"
        ),
        for_s=COLLAPSE_WINDOW_S // 2,
        severity="warning",
        summary="Every slot is busy and less than half of the proven throughput comes out",
        because=f"the proof measured {baseline:.4g} output tokens/s; half of that is {floor:.4g}",
        firing=Case(
            series={tokens: f"0+{slow}x{n}", running: f"{slots}x{n}"},
            at_s=2 * COLLAPSE_WINDOW_S - 60,
        ),
        quiet=Case(
            series={tokens: f"0+{fast}x{n}", running: f"{slots}x{n}"},
            at_s=2 * COLLAPSE_WINDOW_S - 60,
        ),
    )
