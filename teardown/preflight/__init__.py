"""`doctor`: can this stack be measured, what each missing right costs, what each fault will cost.

Ten seconds: a few pages of the server, six small requests through the stream client, this host.
"""

import time
from pathlib import Path

from teardown import credentials
from teardown.engagement import Engagement
from teardown.errors import TeardownError
from teardown.load.probe import BUDGET_S, MAX_REQUESTS, MAX_TOKENS, ProbePlan, run_probe
from teardown.observe.host import HostReader
from teardown.preflight import endpoint, host, rights
from teardown.preflight.finding import Finding, render
from teardown.preflight.service import service
from teardown.preflight.stream import stream
from teardown.settings import Settings, TargetSettings
from teardown.targets import make_target
from teardown.targets.open import api_key

__all__ = ["ANNOUNCEMENT", "Finding", "examine", "key_from", "render"]

ANNOUNCEMENT = (
    f"sends at most {MAX_REQUESTS} small requests, one after the other, of at most {MAX_TOKENS} "
    f"output tokens each, within {BUDGET_S:g} seconds, and reads a few pages: no load"
)


def examine(
    folder: Path | None, url: str | None, model: str | None, key: str | None = None
) -> list[Finding]:
    """Return every check on this host and on the stack; a failed one does not stop the others.

    Either `folder`, an engagement, or `url` with an optional model and API key.
    """
    findings = [host.names(), host.disk(folder or Path())]
    if folder is None:
        return [*findings, host.files(None), *_probed(str(url).rstrip("/"), model, key)]
    engagement = Engagement(folder)
    settings = engagement.settings()
    findings.append(host.files(rights.largest_concurrency(settings)))
    findings += rights.rights(settings.access)
    findings += rights.workloads(engagement, settings)
    return findings + _engagement(engagement, settings)


def key_from(variable: str | None) -> str | None:
    """Return the API key in the environment variable; UsageError where it is named but not set."""
    return credentials.api_key(variable, None)


def _engagement(engagement: Engagement, settings: Settings) -> list[Finding]:
    """Return the checks of the stack of an engagement, started and stopped where it is ours."""
    target = None
    findings: list[Finding] = []
    try:
        key = api_key(settings.target)
        if settings.target.kind != "local":
            url = settings.target.url.rstrip("/")
            reached = endpoint.reach(url, settings.target.model or None, key)
            if not reached.models:
                return [endpoint.port_forward(url), host.proxy(url), *reached.findings]
        target = make_target(settings, engagement)
        target.start()
        stack = target.read_back()
        text = f"{len(stack.effective)} options read back"
        findings.append(Finding(name="stack", level="ok", text=text))
        granted = settings.access.metrics == "read"
        pages = target.metrics_urls() if granted else []
        findings.append(endpoint.metrics(pages, key, granted=granted))
        local = rights.local_tokenizer(settings, engagement)
        findings += _probed(
            target.url, target.model, key, local=local, has_metrics=True, settings=settings.target
        )
    except TeardownError as error:
        findings.append(Finding(name="stack", level="fail", text=str(error)))
    finally:
        if target is not None:
            target.stop()
    return findings


def _probed(
    url: str,
    model: str | None,
    key: str | None,
    *,
    local: str | None = None,
    has_metrics: bool = False,
    settings: TargetSettings | None = None,
) -> list[Finding]:
    """Return the checks of the endpoint at `url`; has_metrics: its pages were looked at before."""
    reached = endpoint.reach(url, model, key)
    findings = [endpoint.port_forward(url), host.proxy(url), *reached.findings]
    if not reached.models:
        return findings
    chosen = model or reached.models[0]
    engine, recognised = endpoint.engine_of(url, key)
    findings.append(recognised)
    if not has_metrics:
        page = engine.metrics_url(url) if engine else None
        findings.append(endpoint.metrics([page] if page else [], key))
    asked = settings.headers if settings else {}
    sent = {name: credentials.header_value(name, value) for name, value in asked.items()}
    plan = ProbePlan(
        url=url,
        model=chosen,
        headers=sent | ({"Authorization": f"Bearer {key}"} if key else {}),
        has_cache_salt=engine is not None and engine.name == "vllm",
    )
    reader = HostReader(None)
    before = reader.row(time.monotonic())
    try:
        report = run_probe(plan)
    except TeardownError as error:
        return [*findings, Finding(name="probe", level="fail", text=str(error))]
    findings += stream(report)
    findings += service(report, len(reached.models))
    main = report.reply("main")
    if main is not None and main.request.chunk_s:
        has_usage = main.request.output_tokens is not None
        named = settings.tokenizer if settings else None
        counts = endpoint.token_counts(
            url, chosen, key, local=local, has_usage=has_usage, tokenizer=named
        )
        findings.append(counts)
    findings.append(host.processor(before, reader.row(time.monotonic())))
    return [*findings, host.clock(report)]
