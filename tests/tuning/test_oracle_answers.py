"""Asking for answers: both forms of log-probabilities, none at all, and what goes wrong."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from teardown.errors import TargetError
from tuning.oracle import ask_all, forbidden
from tuning.oracle.answers import parse_answer, request_body

CHAT = {
    "choices": [
        {
            "finish_reason": "stop",
            "message": {"content": "Hi", "reasoning_content": None},
            "logprobs": {
                "content": [
                    {
                        "token": "Hi",
                        "bytes": [72, 105],
                        "logprob": -0.1,
                        "top_logprobs": [
                            {"token": "Hi", "bytes": [72, 105], "logprob": -0.1},
                            {"token": "\ufffd", "bytes": [226], "logprob": -3.0},
                        ],
                    }
                ]
            },
        }
    ],
    "usage": {"completion_tokens": 1},
}
LEGACY = {
    "choices": [
        {
            "finish_reason": "length",
            "text": "Hi",
            "logprobs": {
                "tokens": ["Hi"],
                "token_logprobs": [-0.1],
                "top_logprobs": [{"Hi": -0.1, "Ho": -2.0}],
            },
        }
    ]
}


@contextmanager
def server(refuse_logprobs: bool = False) -> Iterator[tuple[str, list[dict]]]:
    """Serve the prompt's own text back, with one log-probability unless it is refused."""
    seen: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({**body, "authorization": self.headers["Authorization"]})
            if refuse_logprobs and "logprobs" in body:
                self.reply(400, {"error": "logprobs are not supported"})
                return
            text = body["messages"][-1]["content"]
            choice = {"finish_reason": "stop", "message": {"content": text}}
            if "logprobs" in body:
                item = {"token": text, "logprob": -0.5, "top_logprobs": []}
                choice["logprobs"] = {"content": [item]}
            self.reply(200, {"choices": [choice]})

        def reply(self, status: int, document: dict) -> None:
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/v1", seen
        finally:
            running.shutdown()
            thread.join()


def prompts(num):
    return [{"messages": [{"role": "user", "content": f"p{i}"}]} for i in range(num)]


def test_answers_come_in_the_order_of_the_prompts_at_any_concurrency():
    with server() as (url, seen):
        answers = ask_all(url, "m", prompts(9), 5, concurrency=4, api_key="k")
    assert [a.text for a in answers] == [f"p{i}" for i in range(9)]
    assert [a.prompt_index for a in answers] == list(range(9))
    assert {s["temperature"] for s in seen} == {0}
    assert {s["authorization"] for s in seen} == {"Bearer k"}


def test_a_server_that_refuses_log_probabilities_is_asked_for_text_alone():
    with server(refuse_logprobs=True) as (url, _):
        answer = ask_all(url, "m", prompts(1), 5, concurrency=1)[0]
    assert answer.text == "p0"
    assert answer.tokens == []
    assert "no log-probabilities" in answer.reason


def test_a_server_that_is_gone_ends_the_oracle():
    with pytest.raises(TargetError):
        ask_all("http://127.0.0.1:9/v1", "m", prompts(2), 5, concurrency=2)


def test_chat_and_text_completions_are_read_alike():
    chat, text = parse_answer(0, CHAT, "u"), parse_answer(0, LEGACY, "u")
    assert chat.tokens == text.tokens == ["Hi"]
    assert chat.text == text.text == "Hi"
    assert chat.top[0].keys() == {"Hi", "<e2>"}
    assert text.top[0] == {"Hi": -0.1, "Ho": -2.0}


@pytest.mark.parametrize("document", [{}, {"choices": []}, [], {"error": "busy"}])
def test_a_document_without_a_completion_is_an_error(document):
    with pytest.raises(TargetError, match="no completion"):
        parse_answer(0, document, "u")


def test_a_prompt_keeps_its_extra_body_but_not_its_sampling():
    line = {"prompt": "x", "extra": {"temperature": 1.0, "stream": True, "grammar": "g"}}
    path, body = request_body("m", line, 5, 3)
    assert path == "/completions"
    assert (body["temperature"], body["stream"], body["grammar"]) == (0, False, "g")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"load-format": "dummy"}, "dummy"),
        ({"ignore-eos": True}, "ignore-eos"),
        ({"served-model-name": "other"}, "served-model-name"),
        ({"chat-template": "x"}, "prompts"),
        ({"n-predict": 16}, "cuts"),
        ({"spec-synth-rate": 0.9}, "makes up"),
        ({"speculative-config": '{"rejection_sample_method": "fly"}'}, "fly"),
        ({"speculative-config": "{"}, "not JSON"),
        ({"ctx-size": 256}, "256"),
        ({"parallel": 8}, "needs 420"),
        ({"max-model-len": 128}, "128"),
    ],
)
def test_changes_that_buy_speed_with_answers_are_forbidden(changes, word):
    original = {"ctx-size": 1024, "parallel": 1}
    found = forbidden(changes, original, max_context_tokens=420)
    assert len(found) == 1
    assert word in found[0]


def test_what_the_client_runs_already_is_not_held_against_a_change():
    assert forbidden({"load-format": "dummy"}, {"load-format": "dummy"}) == []
    assert forbidden({"parallel": 8, "kv-unified": True}, {"ctx-size": 4096}, 420) == []
    assert forbidden({"speculative-config": '{"method": "ngram"}'}) == []
