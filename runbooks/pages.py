"""The pages by alert; `PAGES` is the whole list."""

from collections.abc import Callable

from runbooks.names import Names, metrics_in
from runbooks.page import (
    Page,
    Step,
    health_step,
    kept,
    logs_step,
    metrics_step,
    per_way,
    restart_step,
    status_step,
)
from teardown.records import Alert

MEMORY = (
    "`out of memory` or exit code 137: another process took the memory, or more is asked for than "
    "the host has; free it before the restart"
)


def server_down(alert: Alert, names: Names) -> Page:
    """The server does not answer."""
    return Page(
        meaning=(
            f"The metrics page did not answer for {alert.for_s:g} s. The server ended, hangs, "
            "or cannot be reached from the monitoring host."
        ),
        impact="No request is answered. Clients get connection errors.",
        diagnosis=kept(
            health_step(names),
            status_step(names),
            logs_step(names, MEMORY),
            Step(
                text="Is the disk full?",
                commands=[("any", f"df -h {names.install_dir}")] if names.ways else [],
                expect="`Use%` below 100 %",
                otherwise="free space on it; a server that cannot write its cache may not start",
            ),
        ),
        mitigation=kept(restart_step(names)),
    )


def stalled(alert: Alert, names: Names) -> Page:
    """Work waits, nothing runs."""
    return Page(
        meaning=(
            "Requests wait and none runs. The health page may still answer 200: it does not "
            "look at the scheduler."
        ),
        impact="Clients wait until they time out. Nothing is answered although the server is up.",
        diagnosis=kept(
            metrics_step(
                names,
                metrics_in(alert.expr),
                "a running count above 0",
                "0 running and more than 0 waiting confirms the stall",
            ),
            Step(
                text="Does it answer a short request?",
                commands=[("any", names.answer_command)],
                expect='a document with `"choices"` within a minute',
                otherwise="it is stalled for every client: go on to the mitigation",
            ),
            logs_step(names, "keep the log before you restart: it is the evidence of the stall"),
        ),
        mitigation=kept(restart_step(names)),
    )


def restarting(_alert: Alert, names: Names) -> Page:
    """A crash loop."""
    return Page(
        meaning=(
            "The server ended and was started again several times within ten minutes. After five "
            "starts its supervisor leaves it down on purpose."
        ),
        impact="Every restart cuts the running requests and empties the prompt cache.",
        diagnosis=kept(status_step(names), logs_step(names, MEMORY)),
        mitigation=kept(
            Step(
                text="Clear the start limit, then start it once and watch the log.",
                commands=[
                    (
                        way.name,
                        f"systemctl reset-failed {names.service}.service && {way.start}"
                        if way.name == "systemd"
                        else way.start,
                    )
                    for way in names.ways
                ],
                expect="it stays up for ten minutes",
                otherwise="it crashes under the present configuration: roll back, below",
            )
        ),
    )


def queue_growing(alert: Alert, names: Names) -> Page:
    """Arrivals exceed capacity."""
    return Page(
        meaning=(
            "More requests wait than can run at once, and the number has grown for ten minutes: "
            "requests come faster than they are answered."
        ),
        impact="The wait for the first token grows for as long as this lasts.",
        diagnosis=kept(
            metrics_step(
                names,
                metrics_in(alert.expr),
                "fewer waiting than half an hour ago",
                "compare with the capacity in the report: above it, the load has to change",
            ),
            logs_step(names, "errors that make clients retry multiply the load: fix those first"),
        ),
        mitigation=kept(
            Step(
                text="Make sure that the server itself is not slower than it was proven to be.",
                commands=per_way(names, "installed"),
                expect=f"`{names.config_sha256}`",
                otherwise="another configuration runs than the one that was proven: see Verify",
            ),
            Step(
                text="Ask for a short answer to see the wait that a client sees now.",
                commands=[("any", names.answer_command)],
                expect="an answer within the promise",
                otherwise=(
                    "limit arrivals at the client or the gateway to the capacity of the report, "
                    "or start a second host"
                ),
            ),
        ),
    )


def throughput_collapsed(alert: Alert, names: Names) -> Page:
    """Busy, and slower than proven."""
    return Page(
        meaning=(
            "Every slot is busy, and less than half of the output that was proven comes out. "
            "Either the requests have changed (longer prompts, shorter answers) or the server is "
            "slower than it was."
        ),
        impact="Answers take about twice as long or more, and the queue grows sooner.",
        diagnosis=kept(
            Step(
                text="Does the proven configuration run?",
                commands=per_way(names, "installed"),
                expect=f"`{names.config_sha256}`",
                otherwise="install this configuration again: see Upgrade in README.md",
            ),
            Step(
                text="Does something else use the processors?",
                commands=[("any", "top -b -n 1 | head -n 15")],
                expect="the server is at the top and nothing else uses more than a few per cent",
                otherwise="end or move the other process",
            ),
            metrics_step(
                names,
                metrics_in(alert.expr),
                "prompts and answers as long as in the report",
                "measure again with the present prompts: the proof holds for the measured load",
            ),
        ),
        mitigation=kept(restart_step(names)),
    )


def cache_full(alert: Alert, names: Names) -> Page:
    """KV memory binds."""
    return Page(
        meaning="The KV cache is almost full while requests wait: memory, not compute, is short.",
        impact="New requests wait for memory; running ones may be thrown out and computed again.",
        diagnosis=kept(
            metrics_step(
                names,
                metrics_in(alert.expr),
                "usage below 0.95, or nothing waiting",
                "longer contexts or more clients than were measured: compare with the report",
            ),
        ),
        mitigation=kept(
            Step(
                text="Ask for a short answer to see whether clients are hurt.",
                commands=[("any", names.answer_command)],
                expect="an answer within the promise",
                otherwise="limit concurrent clients at the gateway to the number in the report",
            ),
        ),
    )


def preemptions(alert: Alert, names: Names) -> Page:
    """Work is done twice."""
    return Page(
        meaning=(
            "The engine took cache from running requests to let others go on. What it took is "
            "computed again later."
        ),
        impact="Throughput is lost to repeated work, and some streams pause for seconds.",
        diagnosis=kept(
            metrics_step(
                names,
                metrics_in(alert.expr),
                "the same number twice, a minute apart",
                "it rises: contexts are longer or more requests run than were measured",
            ),
            logs_step(names, "a smaller KV cache than at the proof: something else holds memory"),
        ),
        mitigation=kept(restart_step(names)),
    )


def first_token_promise(alert: Alert, names: Names) -> Page:
    """The latency promise is being missed."""
    return Page(
        meaning=(
            "Too many requests wait longer for their first token than was promised, in the last "
            "five minutes and over the last hour."
        ),
        impact="Users notice. At this rate the agreed share of slow requests is used up early.",
        diagnosis=kept(
            metrics_step(
                names,
                ["vllm:num_requests_running", "vllm:num_requests_waiting"],
                "nothing waiting: then prefill itself is slow, so look for longer prompts",
                "requests wait: continue with the page LLMQueueGrowing",
            ),
            Step(
                text="What does one client see now?",
                commands=[("any", names.answer_command)],
                expect="an answer within the promise",
                otherwise="it is slow for everyone: mitigate",
            ),
        ),
        mitigation=kept(restart_step(names)),
    )


PAGES: dict[str, Callable[[Alert, Names], Page]] = {
    "LLMServerDown": server_down,
    "LLMServerStalled": stalled,
    "LLMServerRestarting": restarting,
    "LLMQueueGrowing": queue_growing,
    "LLMQueueTime": queue_growing,
    "LLMThroughputCollapsed": throughput_collapsed,
    "LLMCacheFull": cache_full,
    "LLMPreemptions": preemptions,
    "LLMTimeToFirstTokenPromise": first_token_promise,
}
