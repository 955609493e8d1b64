import json
import time

from teardown.http import fetch, fetch_json, post_json
from tests.fakes.engine import FakeEngine, chat_json, chat_stream


def test_pages_are_served_as_scripted() -> None:
    with FakeEngine(chat_stream(["a"]), pages={"/metrics": "up 1\n"}, model="tiny") as fake:
        assert fetch(fake.root + "/metrics") == "up 1\n"
        assert fetch_json(fake.root + "/health") == {"status": "ok"}
        assert fetch_json(fake.url + "/models")["data"][0]["id"] == "tiny"
        assert fake.num_requests == 0


def test_a_script_is_written_at_its_times() -> None:
    with FakeEngine(chat_json("Hi", at_ms=50)) as fake:
        began_s = time.monotonic()
        answer = post_json(fake.url + "/chat/completions", {"model": "fake"})
        assert time.monotonic() - began_s >= 0.05
        assert answer["choices"][0]["message"]["content"] == "Hi"
        assert fake.bodies == [{"model": "fake"}]
        served = fake.served[0]
        assert 0.05 <= served.written_s[0] - served.seen.read_s < 0.1
        assert (fake.num_requests, fake.peak_in_flight, fake.in_flight) == (1, 1, 0)


def test_the_last_script_of_a_list_stays() -> None:
    with FakeEngine([chat_json("one", at_ms=0), chat_json("two", at_ms=0)]) as fake:
        texts = [
            post_json(fake.url + "/chat/completions", {})["choices"][0]["message"]["content"]
            for _ in range(3)
        ]
    assert texts == ["one", "two", "two"]


def test_a_function_sees_the_request() -> None:
    with FakeEngine(lambda seen: chat_json(json.dumps(seen.json), at_ms=0)) as fake:
        answer = post_json(fake.url + "/chat/completions", {"n": 1})
    assert answer["choices"][0]["message"]["content"] == '{"n": 1}'
