"""Ask a stack for greedy answers with log-probabilities; nothing here is timed.

Works with every server that speaks the OpenAI API. `/v1/chat/completions` (both engines) and
llama.cpp's `/v1/completions` give `logprobs.content`; vLLM's `/v1/completions` gives the older
`tokens, token_logprobs, top_logprobs`. A server that gives neither still answers: then `reason`
says so and only texts can be compared.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from teardown.errors import TargetError
from teardown.http import post_json

# Alternatives asked for at each position. vLLM refuses more than 20 (--max-logprobs, 0.33); five
# hold the runner-up of nearly every flip and keep an answer of 48 tokens under 20 kB.
NUM_TOP = 5
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One greedy answer. tokens, logprobs and top run in parallel, natural logarithms.

    top: the likeliest tokens at each position with their log-probabilities. The three lists are
    empty where the server gives no log-probabilities; `reason` then says why.
    """

    prompt_index: int
    tokens: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top: list[dict[str, float]] = field(default_factory=list)
    finish_reason: str | None = None
    text: str = ""
    num_tokens: int | None = None
    reason: str | None = None


def ask_all(
    url: str,
    model: str,
    prompts: Sequence[Mapping[str, Any]],
    max_tokens: int,
    concurrency: int,
    api_key: str | None = None,
    seed: int = 0,
) -> list[Answer]:
    """Return one answer per prompt, in order, at most `concurrency` of them in flight.

    prompts are lines of a prompts file (`messages` or `prompt`, optionally `extra`). url ends in
    /v1. TargetError when a request fails: an oracle with holes is no oracle.
    """
    with ThreadPoolExecutor(max_workers=max(1, concurrency)) as pool:
        asked = [
            pool.submit(ask, url, model, prompt, index, max_tokens, api_key, seed)
            for index, prompt in enumerate(prompts)
        ]
        return [answer.result() for answer in asked]


def ask(
    url: str,
    model: str,
    prompt: Mapping[str, Any],
    index: int,
    max_tokens: int,
    api_key: str | None = None,
    seed: int = 0,
) -> Answer:
    """Return the greedy answer to one prompt; see `ask_all`."""
    path, body = request_body(model, prompt, max_tokens, seed)
    address = url.rstrip("/") + path
    try:
        document = post_json(address, body, timeout_s=TIMEOUT_S, api_key=api_key)
    except TargetError as error:
        if "logprob" not in str(error).lower():
            raise
        body = {k: v for k, v in body.items() if k not in ("logprobs", "top_logprobs")}
        document = post_json(address, body, timeout_s=TIMEOUT_S, api_key=api_key)
    return parse_answer(index, document, address)


def request_body(
    model: str, prompt: Mapping[str, Any], max_tokens: int, seed: int
) -> tuple[str, dict[str, Any]]:
    """Return the path below /v1 and the body of one greedy request."""
    body: dict[str, Any] = {
        **dict(prompt.get("extra") or {}),
        "model": model,
        "max_tokens": max_tokens,
        "temperature": 0,
        "seed": seed,
        "stream": False,
    }
    body.pop("stream_options", None)
    if "messages" in prompt:
        body |= {"messages": prompt["messages"], "logprobs": True, "top_logprobs": NUM_TOP}
        return "/chat/completions", body
    body |= {"prompt": prompt["prompt"], "logprobs": NUM_TOP}
    return "/completions", body


def parse_answer(index: int, document: Any, source: str) -> Answer:
    """Return the answer in an OpenAI completion document; TargetError where there is none."""
    try:
        choice = document["choices"][0]
        message = choice.get("message") or {}
        texts = (message.get("reasoning_content"), message.get("content"), choice.get("text"))
        usage = document.get("usage") or {}
        tokens, logprobs, top = _parse_logprobs(choice.get("logprobs") or {})
    except (LookupError, TypeError, AttributeError) as error:
        raise TargetError(f"{source} gave no completion: {str(document)[:200]}") from error
    return Answer(
        prompt_index=index,
        tokens=tokens,
        logprobs=logprobs,
        top=top,
        finish_reason=choice.get("finish_reason"),
        text="".join(text for text in texts if text),
        num_tokens=usage.get("completion_tokens", len(tokens) or None),
        reason=None if tokens else "the server gave no log-probabilities",
    )


def _parse_logprobs(
    logprobs: Mapping[str, Any],
) -> tuple[list[str], list[float], list[dict[str, float]]]:
    """Return tokens, their log-probabilities and the alternatives, in either of the two forms."""
    if logprobs.get("tokens"):
        likeliest = logprobs.get("top_logprobs") or [{}] * len(logprobs["tokens"])
        return (
            [str(token) for token in logprobs["tokens"]],
            [float(value) for value in logprobs["token_logprobs"]],
            [{str(k): float(v) for k, v in (item or {}).items()} for item in likeliest],
        )
    content = logprobs.get("content") or []
    return (
        [_name(item) for item in content],
        [float(item["logprob"]) for item in content],
        [
            {_name(other): float(other["logprob"]) for other in item.get("top_logprobs") or []}
            for item in content
        ],
    )


def _name(item: Mapping[str, Any]) -> str:
    """Return a name that tells tokens apart, also those that are a piece of a character."""
    token = str(item["token"])
    raw = item.get("bytes")
    if raw and "\N{REPLACEMENT CHARACTER}" in token:
        return "<" + bytes(raw).hex() + ">"
    return token
