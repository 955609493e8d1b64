"""A scheduled request becomes the bytes that are sent: prompt, salt, limits, extras."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from teardown.errors import UsageError
from teardown.load.config import LoadConfig
from teardown.records import ScheduledRequest


class Outgoing(NamedTuple):
    """Path below the API's root, and the body."""

    path: str
    body: bytes


class Prompts:
    """The lines of a prompts file, made into request bodies by one run's configuration."""

    def __init__(self, config: LoadConfig) -> None:
        self._config = config
        self._lines = _read_lines(Path(config.prompts_path))  # by number, as schedules count them

    def check(self, items: Iterable[ScheduledRequest]) -> None:
        """Raise UsageError where the file has no line for one of `items`."""
        for item in items:
            if item.prompt not in self._lines:
                raise UsageError(
                    f"request {item.request_id} uses prompt {item.prompt}, but "
                    f"{self._config.prompts_path} has no prompt in that line "
                    f"({len(self._lines)} prompts in all)"
                )

    def messages(self, item: ScheduledRequest) -> list[dict[str, Any]]:
        """Return the messages of `item` as they were logged; none for a prompt that is text."""
        found: list[dict[str, Any]] = self._lines[item.prompt].get("messages", [])
        return found

    def outgoing(
        self, item: ScheduledRequest, messages: list[dict[str, Any]] | None = None
    ) -> Outgoing:
        """Return what is sent for `item`; `messages` replace those of its line."""
        line = self._lines[item.prompt]
        if messages is not None:
            line = {**line, "messages": messages}
        config = self._config
        body: dict[str, Any] = {"model": config.model}
        prefix = "" if config.salt is None else f"[{config.salt}] "
        if config.salt_field == "cache_salt":
            prefix = ""
            body |= {} if config.salt is None else {"cache_salt": config.salt}
        limit = "max_tokens"
        options: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
        if "messages" in line:
            path = "/chat/completions"
            body["messages"] = _salted(line["messages"], prefix, "text")
        elif "input" in line:
            path, limit = "/responses", "max_output_tokens"
            options = {"stream": True}  # usage is in the last event anyway
            given = line["input"]
            is_text = isinstance(given, str)
            body["input"] = prefix + given if is_text else _salted(given, prefix, "input_text")
        else:
            path = "/completions"
            body["prompt"] = prefix + line["prompt"]
        if item.max_tokens > 0:
            body[limit] = item.max_tokens
        body |= options | config.extra_body | line.get("extra", {})
        return Outgoing(path, orjson.dumps(body))


def _salted(messages: list[dict[str, Any]], prefix: str, kind: str) -> list[dict[str, Any]]:
    """Return `messages` with `prefix` before the first text of the first message, as a part of
    type `kind` where its content is a list of parts.
    """
    if not prefix or not messages:
        return messages
    first, *rest = messages
    content = first.get("content")
    if isinstance(content, list):
        content = [{"type": kind, "text": prefix}, *content]
    else:
        content = prefix + (content or "")
    return [{**first, "content": content}, *rest]


def _read_lines(path: Path) -> dict[int, dict[str, Any]]:
    """Return the prompt of every line that has one; the first line is number 0."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return {
        number: _parse(line, f"{path} line {number + 1}")
        for number, line in enumerate(text.splitlines())
        if line.strip()
    }


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error}") from error
    if isinstance(document, dict):
        given, prompt = document.get("input"), document.get("prompt")
        is_known = _is_list(document.get("messages")) or isinstance(prompt, str)
        is_known = is_known or isinstance(given, str) or _is_list(given)
        if is_known and isinstance(document.get("extra", {}), dict):
            return document
    raise UsageError(f"{where} has neither a list of messages, nor a prompt text, nor an input")


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
