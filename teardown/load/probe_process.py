"""The probe's process: `python -m teardown.load.probe_process`, a plan on standard input.

It sends its requests one after the other and writes one report on standard output. Exit codes: 0,
2 an address that cannot be read, 3 the endpoint's host is unknown.
"""

import secrets
import sys
import time
from array import array
from dataclasses import replace
from typing import Any, Final

import gevent
import msgspec
import orjson

from teardown.errors import TargetError, TeardownError
from teardown.load.client import Client, Endpoint
from teardown.load.exchange import Exchange
from teardown.load.priority import Priority, run_promptly
from teardown.load.probe import MAX_TOKENS, ProbePlan, ProbeReport
from teardown.load.probe_reply import ReplyFacts, ReplyName, facts_of
from teardown.load.record import percentile

RESPONSES_TOKENS: Final = 16  # the fewest that OpenAI's responses endpoint takes
SALTED_TOKENS: Final = 8
WRONG_MODEL: Final = "teardown-no-such-model"
# A refusal that may mean "not this kind of request": a base model has no chat template.
WRONG_KIND: Final = frozenset({400, 404, 405, 501})
# About 140 tokens, several blocks of any prefix cache; its answer is as long as it may be.
TEXT: Final = (
    "This is a short check of a server before it is measured; nobody reads the answer. "
    "A lighthouse keeper writes the log of the harbour. Every hour he notes the wind, the state of "
    "the sea, the ships that pass with their flags, and whether the lamp is lit. In the morning "
    "the ferry leaves with parcels for the islands, at noon the fishing boats come back, and in "
    "the evening the pilot takes the last freighter out past the breakwater. On Sundays nothing "
    "leaves, and he paints the railings of the gallery white. "
    "Now count from one to one hundred in words, separated by commas, and write nothing else."
)


def main() -> int:
    """Probe as standard input says; return the exit code."""
    try:
        plan = msgspec.json.decode(sys.stdin.buffer.read(), type=ProbePlan)
        report = Prober(plan).run(run_promptly())
    except TeardownError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.buffer.write(msgspec.json.encode(report))
    return 0


class Prober:
    """Sends the requests of one plan and collects what they show."""

    def __init__(self, plan: ProbePlan) -> None:
        self._plan = plan
        self._salt = secrets.token_hex(4)
        self._replies: list[ReplyFacts] = []
        self._lags_s: array[float] = array("d")
        self._num_reads = 0
        try:
            endpoint = Endpoint(plan.url)
        except OSError as error:
            raise TargetError(f"{plan.url}: the host is unknown: {error.strerror}") from error
        headers = {"Accept": "text/event-stream", **plan.headers}
        self._client = Client(endpoint, headers=headers, timeout_s=plan.budget_s)
        self._began_s = time.monotonic()

    def run(self, priority: Priority) -> ProbeReport:
        """Send everything that the time allows; return what was seen, and by which priority."""
        deadline = gevent.spawn_later(self._plan.budget_s, self._client.abort_all)
        is_kept = self._ask_all()
        deadline.kill()
        self._client.close()
        return ProbeReport(
            replies=self._replies,
            elapsed_s=time.monotonic() - self._began_s,
            clock_moved_s=self._client.clock.moved_s,
            num_reads=self._num_reads,
            lag_p50_s=percentile(self._lags_s, 0.5),
            lag_max_s=max(self._lags_s, default=None),
            priority=priority,
            num_connections=self._client.num_connections,
            is_kept_after_idle=is_kept,
        )

    def _ask_all(self) -> bool | None:
        """Return whether the server kept a connection that was idle; None where it was not seen."""
        kind = "chat"
        main = self._ask("main", kind, MAX_TOKENS)
        if main.request.http_status in WRONG_KIND:
            second = self._ask("completions", "completions", MAX_TOKENS)
            if second.is_offered:
                kind, chat = "completions", replace(main, name="chat")
                main = replace(second, name="main")
                self._replies = [chat, main]
        if not main.request.chunk_s or main.request.status in ("aborted", "timeout"):
            return None
        whole = self._ask("whole", kind, MAX_TOKENS, stream=False)
        can_wait = whole.is_reused and self._left_s > 2 * self._plan.idle_s
        if can_wait:
            gevent.sleep(self._plan.idle_s)
        salted = self._ask("salted", kind, SALTED_TOKENS, salt=secrets.token_hex(4))
        self._ask("wrong_model", kind, 1, model=WRONG_MODEL)
        if kind == "chat":
            self._ask("completions", "completions", 1)
        self._ask("responses", "responses", RESPONSES_TOKENS)
        return salted.is_reused if can_wait else None

    @property
    def _left_s(self) -> float:
        return self._began_s + self._plan.budget_s - time.monotonic()

    def _ask(self, name: ReplyName, kind: str, tokens: int, **more: Any) -> ReplyFacts:
        path, body = self._body(kind, tokens, **more)
        if self._left_s > 0:
            exchange = self._client.post(path, orjson.dumps(body), lambda sent_s: None)
        else:
            exchange = Exchange(ending="aborted")
        self._lags_s.extend(exchange.lags_s)
        self._num_reads += exchange.num_reads
        self._replies.append(facts_of(name, exchange))
        return self._replies[-1]

    def _body(
        self,
        kind: str,
        tokens: int,
        *,
        stream: bool = True,
        model: str | None = None,
        salt: str | None = None,
    ) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of one request, salted as measured requests are."""
        salt = salt or self._salt
        body: dict[str, Any] = {"model": model or self._plan.model, "stream": stream}
        text = TEXT
        if self._plan.has_cache_salt:
            body["cache_salt"] = salt
        else:
            text = f"[{salt}] {TEXT}"
        if kind == "responses":
            return "/responses", body | {"input": text, "max_output_tokens": tokens}
        body["max_tokens"] = tokens
        if stream:
            body["stream_options"] = {"include_usage": True}
        if kind == "completions":
            return "/completions", body | {"prompt": text}
        return "/chat/completions", body | {"messages": [{"role": "user", "content": text}]}


if __name__ == "__main__":
    sys.exit(main())
