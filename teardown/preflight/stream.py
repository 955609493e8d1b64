"""What the probe's streamed answer says about the numbers that a run on this endpoint will have."""

from teardown.load.probe import BUDGET_S, ProbeReport
from teardown.load.probe_reply import ReplyFacts
from teardown.preflight.endpoint import KEY_FIX, NEEDS_KEY
from teardown.preflight.finding import Finding, Level, seconds

# All but this part of an answer's time passes before its first chunk: it was held back until ready.
HELD_BACK_RATIO = 0.9
BURST_CHUNKS = 2.0  # chunks per read from which arrival in bursts is plain
FEW_CHUNKS = 8  # with fewer, two in one read are chance
BUFFER_FIX = (
    "switch buffering off on the way (nginx: proxy_buffering off; header X-Accel-Buffering: no), "
    "or measure at the engine's own address"
)
NO_TTFT = "TTFT, TPOT and gaps cannot be measured, runs will be invalid (not_streaming)"


def stream(report: ProbeReport) -> list[Finding]:
    """Return the checks of the main answer; one alone where there is no answer to look at."""
    main = report.reply("main")
    if main is None:
        return []
    chunks = main.request.chunk_s
    failed = _failed(main)
    if failed is not None and not chunks:
        return [failed]
    findings = [] if failed is None else [failed]
    findings.append(_streaming(main, report.reply("whole")))
    if main.form != "events" or not chunks:
        return findings
    findings += [_role(main), _tokens_per_chunk(main), _usage(main)]
    return [*findings, _format(main), _reasoning(main)]


def _failed(main: ReplyFacts) -> Finding | None:
    request = main.request
    if main.is_ok:
        return None
    if request.http_status in NEEDS_KEY:
        text = f"requests are answered with {request.http_status}: they want an API key"
        return _finding("answer", "fail", text, KEY_FIX)
    if main.form == "html":
        text = "requests are answered with a web page: a proxy or a login stands in between"
        return _finding("answer", "fail", text, "give the API's own address")
    if request.status in ("aborted", "timeout"):
        came = f"{len(request.chunk_s)} chunks came" if request.chunk_s else "nothing came"
        text = f"not complete within {BUDGET_S:g} s ({came}): a queue is long, or the stack slow"
        return _finding("answer", "warn", text, "probe again in a quiet hour; give runs minutes")
    if request.status == "cut":
        text = f"the stream was cut ({request.error}): such requests count as failed"
        return _finding("answer", "fail", text, "look for time-outs of the gateway")
    text = f"a small request failed: {request.error}"
    return _finding("answer", "fail", text, "check the path and the name of the model")


def _streaming(main: ReplyFacts, whole: ReplyFacts | None) -> Finding:
    chunks, tokens = main.request.chunk_s, main.request.output_tokens
    if main.form != "events":
        text = f"asked for a stream, it sends one {main.form.upper()} document: {NO_TTFT}"
        return _finding("streaming", "fail", text, "let `stream: true` through the gateway")
    if not chunks:
        return _finding("streaming", "fail", f"the stream has no content: {NO_TTFT}", "")
    if len(chunks) == 1:
        if tokens is not None and tokens > 1:
            text = f"all {tokens} tokens came as one chunk: {NO_TTFT}"
            return _finding("streaming", "fail", text, BUFFER_FIX)
        text = "one chunk is too little to tell whether it streams"
        return _finding("streaming", "warn", text, "ask a model that answers at length")
    first_s, last_s = chunks[0], chunks[-1]
    whole_s = whole.request.e2e_s if whole is not None and whole.is_ok else None
    unstreamed = "" if whole_s is None else f"; not streamed the answer takes {seconds(whole_s)}"
    if main.num_spans == 1:
        text = f"all {len(chunks)} chunks came in one read after {seconds(first_s)}: {NO_TTFT}"
        return _finding("streaming", "fail", text, BUFFER_FIX)
    spread = (
        f"{len(chunks)} chunks over {seconds(last_s - first_s)}, "
        f"the first after {seconds(first_s)}{unstreamed}"
    )
    is_held = first_s >= HELD_BACK_RATIO * last_s
    if is_held and whole_s is not None and first_s >= HELD_BACK_RATIO * whole_s:
        text = f"{spread}: it seems to be held back until it is ready, TTFT would be E2E"
        return _finding("streaming", "warn", text, BUFFER_FIX)
    if len(chunks) >= FEW_CHUNKS and len(chunks) >= BURST_CHUNKS * main.num_spans:
        text = f"{spread}, but in {main.num_spans} reads: bursts, gaps and max gap are not tokens'"
        return _finding("streaming", "warn", text, BUFFER_FIX)
    return _finding("streaming", "ok", spread)


def _role(main: ReplyFacts) -> Finding:
    first_s = main.request.chunk_s[0]
    if main.role_s is None:
        text = f"no event of its own; content from {seconds(first_s)}"
    else:
        text = (
            f"its event after {seconds(main.role_s)}, content after {seconds(first_s)}: TTFT is "
            "the content's"
        )
    return _finding("role chunk", "ok", text)


def _tokens_per_chunk(main: ReplyFacts) -> Finding:
    num_chunks, tokens = len(main.request.chunk_s), main.request.output_tokens
    name = "tokens per chunk"
    if tokens is None:
        text = f"{num_chunks} chunks of an unknown number of tokens: TPOT will be unknown"
        return _finding(name, "warn", text, "see token counts")
    each = f"{tokens} tokens in {num_chunks} chunks"
    if main.request.first_chunk_tokens is None:
        return _finding(
            name,
            "warn",
            f"{each}, and none says how many it has: TPOT will be unknown, a gap is no token",
            "extra_body in the workload: {stream_options: {include_usage: true, "
            "continuous_usage_stats: true}} (vLLM), or the engine's stream interval at 1",
        )
    if abs(tokens - num_chunks) > 1 and main.num_usages > 1:
        each += ", and each says its count"
    return _finding(name, "ok", each)


def _usage(main: ReplyFacts) -> Finding:
    places = {
        "own": "an event of its own",
        "finish": "the event with the finish reason",
        "content": "events with content",
    }
    if main.request.output_tokens is None:
        return _finding(
            "usage",
            "warn",
            "no token counts in the stream, though it asks for them (stream_options)",
            "update the engine, or let the field through the gateway",
        )
    where = " and ".join(places[place] for place in main.usage_places) or "the server's timings"
    return _finding("usage", "ok", f"in {where}")


def _format(main: ReplyFacts) -> Finding:
    request = main.request
    parts = [f"{main.newline} lines"]
    parts.append(f"finish reason {request.finish_reason}" if request.finish_reason else "")
    parts.append("[DONE]" if main.is_done else "")
    ending = ", ".join(part for part in parts if part)
    if main.num_comments:
        ending += f", {main.num_comments} comments (keep-alives), which count as nothing"
    if request.finish_reason is None and not main.is_done:
        text = f"{ending}, no finish reason and no [DONE]: a cut cannot be told from an end"
        return _finding("format", "warn", text, "update the engine or the gateway")
    missing = "" if main.is_done else "; no [DONE]"
    missing += "" if request.finish_reason else "; no finish reason"
    return _finding("format", "ok", ending + missing)


def _reasoning(main: ReplyFacts) -> Finding:
    request = main.request
    if main.reasoning_key is not None:
        answered = "" if request.ttfo_s is not None else "; no answer came within the probe"
        text = f"under `{main.reasoning_key}`: TTFT counts it, TTFO waits for the answer{answered}"
        return _finding("reasoning", "ok", text)
    if request.reasoning_tokens:
        text = f"{request.reasoning_tokens} tokens of it are counted but not streamed: TTFT has it"
        return _finding("reasoning", "warn", text, "compare TTFT with engines that hide it as well")
    return _finding("reasoning", "ok", "none seen")


def _finding(name: str, level: Level, text: str, fix: str = "") -> Finding:
    return Finding(name=name, level=level, text=text, fix=fix)
