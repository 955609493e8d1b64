"""Events and replies of the responses endpoint (`response.*`, OpenAI's API reference).

Text arrives in events whose type ends in `.delta`; the `.done` events repeat it and count for
nothing. Usage and the end are in `response.completed` or `response.incomplete`.
"""

from typing import Any, Final

from teardown.load.document import count_of, items_of, object_of, text_of
from teardown.load.part import Part, Piece

PREFIX: Final = "response."
# Why an answer is incomplete, in the words of the other endpoints.
FINISH_BY_REASON: Final = {"max_output_tokens": "length"}
FINISHED: Final = frozenset({"completed", "incomplete"})


def is_responses(document: dict[str, Any], kind: str) -> bool:
    """Return whether an event of this SSE kind, or a reply, is of the responses endpoint."""
    name = document.get("type")
    return (
        document.get("object") == "response"
        or kind.startswith(PREFIX)
        or (isinstance(name, str) and name.startswith(PREFIX))
    )


def error_of(document: dict[str, Any], kind: str) -> Any:
    """Return the error that a failed response carries; None where it did not fail."""
    response = document.get("response", document)
    if not isinstance(response, dict):
        return None
    has_failed = response.get("status") in ("failed", "cancelled")
    if not has_failed and _name(document, kind) != "response.failed":
        return None
    return response.get("error") or {"message": f"the response is {response.get('status')}"}


def read_responses(document: dict[str, Any], kind: str) -> Part:
    """Return what `document` says, an event or a whole reply; Malformed names a wrong field."""
    if document.get("object") == "response":
        return _ending(document, [_item(item) for item in items_of(document, "output")])
    name = _name(document, kind)
    if name.endswith(".delta"):
        entries = document.get("logprobs")
        return Part(
            pieces=[_delta(name, document)],
            logprob_entries=len(entries) if isinstance(entries, list) and entries else None,
        )
    if name == "response.output_item.added":
        item = object_of(document, "item")
        return Part(pieces=[Piece(tool_name=_call_name(item))])
    if name in ("response.completed", "response.incomplete"):
        return _ending(object_of(document, "response"), [])
    return Part()


def _name(document: dict[str, Any], kind: str) -> str:
    name = document.get("type")
    return name if isinstance(name, str) else kind


def _delta(name: str, document: dict[str, Any]) -> Piece:
    if "reasoning_summary" in name:
        return Piece(summary=text_of(document, "delta"))
    if "reasoning" in name:
        return Piece(reasoning=text_of(document, "delta"))
    if "output_text" in name or "refusal" in name:
        return Piece(content=text_of(document, "delta"))
    if "call" in name:  # function_call_arguments, mcp_call_arguments, custom_tool_call_input
        return Piece(tool_arguments=text_of(document, "delta"))
    return Piece()  # sound


def _call_name(item: dict[str, Any]) -> str:
    return text_of(item, "name") if text_of(item, "type").endswith("_call") else ""


def _item(item: dict[str, Any]) -> Piece:
    """Return the texts of one item of a reply that is not streamed."""
    texts = [_text(part) for part in items_of(item, "content")]
    if item.get("type") == "reasoning":
        return Piece(
            reasoning="".join(texts), summary="".join(map(_text, items_of(item, "summary")))
        )
    return Piece(
        content="".join(texts),
        tool_name=_call_name(item),
        tool_arguments=text_of(item, "arguments") or text_of(item, "input"),
    )


def _text(part: dict[str, Any]) -> str:
    return text_of(part, "text") + text_of(part, "refusal")


def _ending(response: dict[str, Any], pieces: list[Piece]) -> Part:
    usage = object_of(response, "usage")
    output_tokens = count_of(usage, "output_tokens")
    return Part(
        pieces=pieces,
        finish_reason=_finish_reason(response),
        prompt_tokens=count_of(usage, "input_tokens"),
        output_tokens=output_tokens,
        reasoning_tokens=count_of(object_of(usage, "output_tokens_details"), "reasoning_tokens"),
        cached_tokens=count_of(object_of(usage, "input_tokens_details"), "cached_tokens"),
        reported_tokens=output_tokens or None,
    )


def _finish_reason(response: dict[str, Any]) -> str | None:
    status = text_of(response, "status")
    if status and status not in FINISHED:
        return None
    reason = text_of(object_of(response, "incomplete_details"), "reason")
    if reason or status == "incomplete":
        return FINISH_BY_REASON.get(reason, reason or status)
    calls = [item for item in items_of(response, "output") if _call_name(item)]
    return "tool_calls" if calls else "stop"
