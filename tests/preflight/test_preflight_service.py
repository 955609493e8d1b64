"""Connections, errors, kinds of request and the prefix cache, against a scripted server."""

from dataclasses import replace

from teardown.preflight.finding import Finding
from teardown.preflight.service import connection, service
from tests.fakes.engine import (
    CLOSE,
    STREAM_HEAD,
    Script,
    Seen,
    chat_json,
    http_reply,
    sse,
    stream_script,
    usage_document,
)
from tests.preflight.endpoints import (
    PROMPT_TOKENS,
    by_name,
    endpoint,
    name_of,
    probe,
    streamed,
    whole,
)


def findings(num_models: int = 1, **spoilt: Script) -> dict[str, Finding]:
    report, _ = probe(endpoint(**spoilt))
    return by_name(service(report, num_models))


def closing(script: Script) -> Script:
    """The same answer from a server that says it will close, and does."""
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    return [(at, head if raw == STREAM_HEAD else raw) for at, raw in script] + [(200.0, CLOSE)]


def test_a_good_service_passes_every_check() -> None:
    found = findings()
    assert {name: f.level for name, f in found.items()} == dict.fromkeys(
        ("connection", "errors", "endpoints", "prefix cache"), "ok"
    )
    assert "404 with a reason" in found["errors"].text
    assert "chat yes, completions yes, responses no (404)" in found["endpoints"].text
    assert "tool calls not tested" in found["endpoints"].text


def test_a_connection_that_is_closed_after_every_reply_is_noticed() -> None:
    found = findings(chat=closing(streamed()))["connection"]
    assert found.text.startswith("closed after a streamed reply")
    assert found.level == "ok"  # on this host it costs next to nothing


def test_a_connection_that_is_slow_to_open_each_time_is_a_warning() -> None:
    report, _ = probe(endpoint(chat=closing(streamed())))
    slow = [
        replace(reply, request=replace(reply.request, connect_s=0.04)) for reply in report.replies
    ]
    found = connection(replace(report, replies=slow))
    assert found is not None
    assert (found.level, "users wait for it" in found.text) == ("warn", True)


def test_how_long_an_idle_connection_stays_open_is_seen() -> None:
    report, _ = probe(endpoint(), idle_s=0.05)
    assert report.num_connections == 1
    assert "still open" in by_name(service(report, 1))["connection"].text
    report, _ = probe(endpoint(), idle_s=0.4, idle_close_s=0.1)
    assert report.num_connections == 2
    found = by_name(service(report, 1))["connection"]
    assert (found.level, "closed by the server" in found.text) == ("ok", True)


def test_without_time_to_wait_it_is_unknown_how_long_a_connection_stays_open() -> None:
    report, _ = probe(endpoint(), idle_s=6.0, budget_s=10.0)
    assert report.is_kept_after_idle is None
    assert "unknown" in by_name(service(report, 1))["connection"].text


def test_an_error_inside_a_200_is_named() -> None:
    error = stream_script([(1.0, sse({"error": {"message": "no such model"}}) + sse("[DONE]"))])
    found = findings(wrong_model=error)["errors"]
    assert (found.level, "inside a 200" in found.text) == ("warn", True)
    reply = http_reply(b'{"error": {"message": "no such model"}}')
    assert "inside a 200" in findings(wrong_model=[(0.0, reply)])["errors"].text


def test_an_error_without_json_is_named() -> None:
    page = http_reply(b"<html>bad gateway", status="502 Bad Gateway", content_type="text/html")
    found = findings(wrong_model=[(0.0, page)])["errors"]
    assert (found.level, "502 without JSON" in found.text) == ("warn", True)


def test_a_wrong_name_that_is_answered_is_a_fault_where_there_are_several_models() -> None:
    assert findings(1, wrong_model=streamed(1))["errors"].level == "ok"
    found = findings(2, wrong_model=streamed(1))["errors"]
    assert (found.level, "fallback" in found.text) == ("warn", True)


def test_a_connection_that_drops_instead_of_an_error_is_named() -> None:
    found = findings(wrong_model=[(0.0, CLOSE)])["errors"]
    assert (found.level, "nothing" in found.text) == ("warn", True)


def test_a_base_model_is_probed_at_completions() -> None:
    refused = http_reply(b'{"error": {"message": "no template"}}', status="400 Bad Request")

    def base_model(seen: Seen) -> Script:
        return [(0.0, refused)] if "chat" in seen.path else endpoint()(seen)

    report, fake = probe(base_model)
    found = by_name(service(report, 1))["endpoints"]
    assert (found.level, "chat no (400), completions yes" in found.text) == ("warn", True)
    assert "no template" in found.text
    assert fake.num_requests == len(report.replies) == 6


def test_the_responses_endpoint_is_seen_where_there_is_one() -> None:
    reply = http_reply(b'{"object": "response", "status": "completed", "output": []}')
    assert "responses yes" in findings(responses=[(0.0, reply)])["endpoints"].text


def test_a_salt_that_the_cache_respects_is_shown_by_numbers() -> None:
    seen_prompts: set[str] = set()

    def caching(seen: Seen) -> Script:
        if name_of(seen) not in ("chat", "whole", "salted"):
            return endpoint()(seen)
        prompt = seen.json["messages"][0]["content"]
        cached = 144 if prompt in seen_prompts else 8
        seen_prompts.add(prompt)
        return whole(cached) if name_of(seen) == "whole" else streamed(8, cached)

    report, _ = probe(caching)
    found = by_name(service(report, 1))["prefix cache"]
    assert found.level == "ok"
    assert found.text == "a repeat had 144 of 150 tokens from it, a fresh salt 8"


def test_a_salt_that_the_cache_ignores_is_a_warning() -> None:
    found = findings(salted=streamed(8, cached=144))["prefix cache"]
    assert (found.level, "warm_cache" in found.text) == ("warn", True)


def test_a_cache_that_is_off_is_told_from_one_that_is_not_reported() -> None:
    assert "(off" in findings(whole=whole(0), salted=streamed(8, 0))["prefix cache"].text
    silent = chat_json("one", usage=usage_document(32, prompt=PROMPT_TOKENS))
    found = findings(whole=silent)["prefix cache"]
    assert (found.level, "not reported" in found.text) == ("warn", True)


def test_an_engine_with_a_salt_field_gets_the_salt_there() -> None:
    _, fake = probe(endpoint(), has_cache_salt=True)
    salts = [body["cache_salt"] for body in fake.bodies]
    prompts = {body["messages"][0]["content"] for body in fake.bodies if "messages" in body}
    assert len(prompts) == 1
    assert salts[0] == salts[1] != salts[2]


def test_a_fault_of_the_main_answer_leaves_the_rest_untested() -> None:
    report, _ = probe(endpoint(chat=[(0.0, http_reply(b"{}", status="500 Oh"))]))
    assert service(report, 1) == []
