"""`forget` deletes every text, proves it, and leaves an engagement that can still be read."""

import gzip
import json
from pathlib import Path

import pytest

from teardown.engagement import Engagement
from teardown.errors import TeardownError, UsageError
from teardown.forget import Forgotten, forget_texts, read_forgotten
from teardown.measure import prepare
from teardown.records import read
from teardown.settings import parse_settings
from tests.desk import finish, start
from tests.fakes.engine import FakeEngine
from tests.fakes.scripts import http_reply

SECRET = "the merger with the third company of the list is planned for the end of May"
ANSWER = "nobody outside of the board has been told so far, and it must stay like that"
SETTINGS = """
client: Example
target: {kind: endpoint, url: http://127.0.0.1:1/v1, model: m}
workloads: [{name: chats, kind: closed, prompts: chats.jsonl}]
"""


@pytest.fixture
def engagement(tmp_path: Path) -> Engagement:
    """A folder with text everywhere that text may lie."""
    folder = tmp_path / "e"
    folder.mkdir()
    (folder / "engagement.yaml").write_text(SETTINGS)
    (folder / "chats.jsonl").write_text(json.dumps({"prompt": SECRET}) + "\n")
    found = Engagement(folder)
    prepare(found, found.settings().workloads[0])
    found.oracle_dir.mkdir()
    line = {"prompt_index": 0, "text": ANSWER}
    (found.oracle_dir / "reference.jsonl").write_text(json.dumps(line) + "\n")
    run = found.run_dir("r0001-before-chats")
    run.mkdir(parents=True)
    (run / "engine.log.gz").write_bytes(gzip.compress(SECRET.encode()))
    (run / "host.json").write_text("{}")
    return found


def left_of(engagement: Engagement) -> str:
    return "".join(
        (gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes()).decode(
            errors="replace"
        )
        for p in engagement.folder.rglob("*")
        if p.is_file()
    )


def test_no_word_of_prompts_and_answers_is_left(engagement: Engagement) -> None:
    record = forget_texts(engagement, engagement.settings())
    assert {d.path for d in record.deleted} == {
        "chats.jsonl",
        "oracle/reference.jsonl",
        "runs/r0001-before-chats/engine.log.gz",
        "workload/block-key",
    }
    assert record.num_pieces == 6
    assert record.num_files_searched > 3
    assert "merger" not in left_of(engagement)
    assert "board" not in left_of(engagement)


@pytest.mark.parametrize("place", ["notes.txt", "runs/r0001-before-chats/other.json.gz"])
def test_text_in_an_unexpected_place_is_found_and_named(engagement: Engagement, place: str) -> None:
    text = json.dumps({"quoted": f"x {ANSWER} y"}).encode()
    data = gzip.compress(text) if place.endswith(".gz") else text
    (engagement.folder / place).write_bytes(data)
    with pytest.raises(TeardownError, match=place):
        forget_texts(engagement, engagement.settings())


def test_forgetting_twice_keeps_the_first_record(engagement: Engagement) -> None:
    first = forget_texts(engagement, engagement.settings())
    second = forget_texts(engagement, engagement.settings())
    assert second.deleted == first.deleted
    assert second.num_pieces == first.num_pieces
    assert read_forgotten(engagement) == second


def test_prompts_outside_the_folder_are_left_and_named(
    engagement: Engagement, tmp_path: Path
) -> None:
    elsewhere = (engagement.folder / "chats.jsonl").rename(tmp_path / "theirs.jsonl")
    settings = parse_settings(SETTINGS.replace("chats.jsonl", str(elsewhere)))
    record = forget_texts(engagement, settings)
    assert record.outside == [str(elsewhere)]
    assert elsewhere.exists()


def test_after_forgetting_a_measurement_says_what_is_missing(engagement: Engagement) -> None:
    forget_texts(engagement, engagement.settings())
    with pytest.raises(UsageError, match="deleted by `teardown forget`"):
        prepare(engagement, engagement.settings().workloads[0])


def test_an_error_that_quotes_the_prompt_is_not_kept_and_the_verb_proves_it(tmp_path: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps({"prompt": SECRET}) + "\n")
    folder = tmp_path / "e"
    quoting = [(0.0, http_reply(json.dumps({"error": {"message": f"bad: {SECRET}"}}).encode(),
                                status="400 Bad Request"))]  # fmt: skip
    whole = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    warm_up = [(0.0, http_reply(json.dumps(whole).encode()))]
    scripts = [warm_up, warm_up, quoting]
    with FakeEngine(scripts) as fake:
        code, output = finish(start(
            "measure", str(folder), "--url", fake.url, "--prompts", str(prompts),
            "--requests", "1",
        ), timeout_s=60)  # fmt: skip
    assert code == 4, output
    rows = json.loads(
        finish(start("requests", str(folder), "--run", "r0001-before-load", "--json"), 60)[1]
    )["requests"]
    assert rows[0]["status"] == "error"
    assert "merger" not in json.dumps(rows)
    code, output = finish(start("forget", str(folder)), timeout_s=60)
    assert code == 0, output
    assert "none is left" in output
    record = read(Forgotten, folder / "forgotten.json")
    assert record.num_pieces > 0
