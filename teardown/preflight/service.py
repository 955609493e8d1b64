"""What the probe's other requests say: connections, errors, kinds of request, prefix cache."""

from teardown.load.probe import IDLE_S, ProbeReport
from teardown.load.probe_reply import ReplyFacts
from teardown.preflight.finding import Finding, seconds

# A repeat of a prompt that has this part of it from the cache was a hit; less is the chat template.
HIT_RATIO = 0.5

# Opening a connection costs less than this part of TTFT: not worth a warning.
CONNECT_RATIO = 0.05


def service(report: ProbeReport, num_models: int) -> list[Finding]:
    """Return the checks that need more than the main answer; none where it was all there was."""
    if report.reply("whole") is None:
        return []
    found = [connection(report), errors(report, num_models), kinds(report), prefix_cache(report)]
    return [finding for finding in found if finding is not None]


def connection(report: ProbeReport) -> Finding | None:
    """Say whether connections are kept, also when nothing is said on them."""
    main, whole = report.reply("main"), report.reply("whole")
    if main is None or whole is None or whole.request.sent_s is None:
        return None
    if not whole.is_reused:
        connect_s = whole.request.connect_s or 0.0
        text = f"closed after a streamed reply: each request connects anew ({seconds(connect_s)})"
        if connect_s < CONNECT_RATIO * (main.request.ttft_s or 0.0):
            return Finding(name="connection", level="ok", text=text)
        return Finding(
            name="connection",
            level="warn",
            text=f"{text}: it is no part of TTFT, but users wait for it",
            fix="switch keep-alive on in the gateway or the server; `connect_s` shows it otherwise",
        )
    idle = {
        True: f"still open after {IDLE_S:g} s without a request",
        False: f"closed by the server within {IDLE_S:g} s without a request: reopened in silence",
        None: "how long it stays open is unknown",
    }
    text = f"kept between requests; {idle[report.is_kept_after_idle]}"
    return Finding(name="connection", level="ok", text=text)


def errors(report: ProbeReport, num_models: int) -> Finding | None:
    """Say what a wrong model name is answered with."""
    wrong = report.reply("wrong_model")
    if wrong is None or wrong.request.sent_s is None:
        return None
    code = wrong.request.http_status
    if wrong.has_error_inside:
        return Finding(
            name="errors",
            level="warn",
            text="come inside a 200: the kit counts such requests as failed, but gateways and "
            "dashboards that read the code count them as good",
            fix="compare error rates with the client's dashboards before the report does",
        )
    if wrong.is_ok:
        text = "a wrong model name is answered all the same"
        if num_models <= 1:
            return Finding(name="errors", level="ok", text=f"{text}: one model serves all names")
        return Finding(
            name="errors",
            level="warn",
            text=f"{text}: a fallback to another model would not be noticed",
            fix="switch fallbacks off for the measurement",
        )
    if code is None:
        text = f"a wrong model name is answered with nothing ({wrong.request.error})"
        return Finding(name="errors", level="warn", text=f"{text}: failures will have no reason")
    if wrong.form != "json":
        text = f"a wrong model name gives {code} without JSON: failures will have no reason"
        return Finding(name="errors", level="warn", text=text, fix="read the engine's log as well")
    return Finding(name="errors", level="ok", text=f"a wrong model name gives {code} with a reason")


def kinds(report: ProbeReport) -> Finding:
    """Say which kinds of request the server takes."""
    chat = report.reply("chat")
    if chat is None:
        completions = report.reply("completions")
        shown = f"chat yes, completions {_offered(completions)}"
    else:
        shown = f"chat {_offered(chat)}, completions yes"
    shown += f", responses {_offered(report.reply('responses'))}; tool calls not tested"
    if chat is None:
        return Finding(name="endpoints", level="ok", text=shown)
    return Finding(
        name="endpoints",
        level="warn",
        text=f"{shown}: prompts with `messages` will fail ({(chat.request.error or '')[:80]})",
        fix="use prompts with `prompt`, or give the server a chat template",
    )


def prefix_cache(report: ProbeReport) -> Finding:
    """Say whether a fresh salt keeps a run's prompts apart from what the cache holds already."""
    name = "prefix cache"
    whole, salted = report.reply("whole"), report.reply("salted")
    repeat, fresh = _cached(whole), _cached(salted)
    if repeat is None or fresh is None:
        return Finding(
            name=name,
            level="warn",
            text="cached tokens are not reported: a run that is warm by chance cannot be told",
            fix="vLLM: --enable-prompt-tokens-details",
        )
    prompt = (salted.request.prompt_tokens if salted else None) or 0
    text = f"a repeat had {repeat} of {prompt} tokens from it, a fresh salt {fresh}"
    if fresh >= HIT_RATIO * max(prompt, 1):
        return Finding(
            name=name,
            level="warn",
            text=f"{text}: the salt does not keep runs apart, they will be warm_cache",
            fix="flush the cache or restart before each run, or measure `regime: production`",
        )
    off = "" if repeat >= HIT_RATIO * max(prompt, 1) else " (off, or its blocks are longer)"
    return Finding(name=name, level="ok", text=text + off)


def _offered(reply: ReplyFacts | None) -> str:
    if reply is None or reply.request.sent_s is None:
        return "not tested"
    code = reply.request.http_status
    if reply.is_offered and not reply.has_error_inside:
        return "yes"
    return "no answer" if code is None else f"no ({code})"


def _cached(reply: ReplyFacts | None) -> int | None:
    return reply.request.cached_tokens if reply is not None and reply.is_ok else None
