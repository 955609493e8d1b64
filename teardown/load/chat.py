"""Events and replies of the chat completions and the completions endpoints.

Chat has its texts in `delta` (streamed) or `message`, completions in the choice itself. Reasoning
comes under `reasoning` or `reasoning_content`, by engine and version.
"""

from typing import Any

from teardown.load.document import Malformed, count_of, items_of, object_of, seconds_of, text_of
from teardown.load.part import Part, Piece
from teardown.records import ServerTimings


def read_chat(document: dict[str, Any], key: str) -> Part:
    """Return what `document` says; `key` is "delta" or "message". Malformed names a wrong field."""
    choices = items_of(document, "choices")
    finished = [choice for choice in choices if isinstance(choice.get("finish_reason"), str)]
    stops = [choice.get("stop_reason") for choice in finished]  # vLLM: a stop string, or an id
    usage = object_of(document, "usage")
    server = _timings(object_of(document, "timings"))
    output_tokens = count_of(usage, "completion_tokens")
    return Part(
        pieces=[_piece(choice, key) for choice in choices],
        finish_reason=finished[0]["finish_reason"] if finished else None,
        stop_string=next((stop for stop in stops if isinstance(stop, str)), None),
        prompt_tokens=count_of(usage, "prompt_tokens"),
        output_tokens=output_tokens,
        reasoning_tokens=count_of(
            object_of(usage, "completion_tokens_details"), "reasoning_tokens"
        ),
        cached_tokens=count_of(object_of(usage, "prompt_tokens_details"), "cached_tokens"),
        server=server,
        reported_tokens=output_tokens or (server.decode_tokens if server else None) or None,
        logprob_entries=_logprob_entries(choices),
    )


def _piece(choice: dict[str, Any], key: str) -> Piece:
    delta = choice.get(key)
    if delta is None:
        return Piece(content=text_of(choice, "text"))
    if not isinstance(delta, dict):
        raise Malformed(f"{key} is not an object")
    functions = [object_of(call, "function") for call in items_of(delta, "tool_calls")]
    if delta.get("function_call") is not None:
        functions.append(object_of(delta, "function_call"))
    return Piece(
        content=text_of(delta, "content") + text_of(delta, "refusal"),
        reasoning=text_of(delta, "reasoning") or text_of(delta, "reasoning_content"),
        tool_name="".join(text_of(function, "name") for function in functions),
        tool_arguments="".join(text_of(function, "arguments") for function in functions),
    )


def _timings(timings: dict[str, Any]) -> ServerTimings | None:
    """Return llama.cpp's own account of the request."""
    if not timings:
        return None
    return ServerTimings(
        prefill_s=seconds_of(timings, "prompt_ms"),
        decode_s=seconds_of(timings, "predicted_ms"),
        prefill_tokens=count_of(timings, "prompt_n"),
        decode_tokens=count_of(timings, "predicted_n"),
        cached_tokens=count_of(timings, "cache_n"),
    )


def _logprob_entries(choices: list[dict[str, Any]]) -> int | None:
    """Tokens of one event by its log-probabilities, chat (`content`) or completions (`tokens`)."""
    counts = []
    for choice in choices:
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            entries = logprobs.get("content") or logprobs.get("tokens")
            counts.append(len(entries) if isinstance(entries, list) else 0)
    return sum(counts) or None
