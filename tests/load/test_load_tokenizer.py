"""Tokens are counted by a tokenizer on this disk, without tokens that are not in the text."""

import json
from pathlib import Path
from typing import Any

import pytest

from teardown.engines.embedded import cache_dir
from teardown.errors import UsageError
from teardown.load.run import run_load
from teardown.load.tokenizer import open_tokenizer
from tests.fakes.engine import FakeEngine, stream_script
from tests.fakes.exchanges import request_of, streamed
from tests.fakes.loads import closed_schedule, journal_of, load_config
from tests.load.cases import delta, ending, usage_document

EMBEDDED = cache_dir() / "SmolLM2-135M-Instruct.Q4_1.gguf"


def words(text: str) -> int:
    return len(text.split())


def test_a_count_of_the_text_has_no_end_token_and_no_hidden_reasoning() -> None:
    events = [(100.0 + 10 * n, delta(content=f"w{n} ")) for n in range(10)]
    request = request_of(streamed([*events, (190.0, ending(None, "stop"))]), words)
    assert (request.output_tokens, request.output_tokens_source) == (10, "tokenizer")
    assert request.tpot_s == pytest.approx(0.01)
    assert "output_tokens" not in request.reasons


def test_a_report_of_the_server_goes_before_the_tokenizer() -> None:
    events = [(100.0 + 40 * n, delta(content="a b c d ")) for n in range(10)]
    request = request_of(streamed([*events, (460.0, ending(usage_document(40)))]), words)
    assert (request.output_tokens, request.output_tokens_source) == (40, "usage")
    assert request.first_chunk_tokens == 4  # which the server does not report
    assert request.tpot_s == pytest.approx(0.01)  # 360 ms over 36


def test_a_word_in_two_chunks_is_counted_once() -> None:
    events = [(100.0, delta(content="to")), (110.0, delta(content="gether again"))]
    request = request_of(streamed([*events, (110.0, ending(None))]), words)
    assert request.output_tokens == 2


def test_an_answer_without_content_is_not_counted() -> None:
    request = request_of(streamed([(10.0, ending(None))]), words)
    assert (request.status, request.output_tokens) == ("empty", None)


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_tokenizer_that_is_not_there_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        open_tokenizer(tmp_path / name)


def test_a_tokenizer_file_of_the_transformers_kind_counts_without_its_begin_token(
    tmp_path: Path,
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    tokenizer: Any = tokenizers.Tokenizer(WordLevel({"<s>": 0, "a": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert len(tokenizer.encode("a a a").ids) == 4
    assert open_tokenizer(tmp_path).count("a a a") == 3
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="is not a tokenizer"):
        open_tokenizer(tmp_path)


@pytest.mark.logits
def test_a_gguf_file_counts_with_its_own_vocabulary(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    if not EMBEDDED.exists():
        pytest.skip("the embedded model is not on this disk")
    tokenizer = open_tokenizer(EMBEDDED)
    assert tokenizer.count("Hello world") == 2
    assert tokenizer.count("") == 0
    (tmp_path / "no.gguf").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="cannot be read"):
        open_tokenizer(tmp_path / "no.gguf")


@pytest.mark.logits
def test_the_load_process_counts_where_the_server_does_not(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    if not EMBEDDED.exists():
        pytest.skip("the embedded model is not on this disk")
    events = [(20.0, delta(content="Hello")), (40.0, delta(content=" world")), (41.0, ending(None))]
    with FakeEngine(stream_script(events)) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(3, 1), tokenizer=str(EMBEDDED))
        run_load(config, lambda progress: None)
    for request in journal_of(config).requests:
        assert (request.output_tokens, request.output_tokens_source) == (2, "tokenizer")
        assert request.tpot_s == pytest.approx(0.02, abs=0.01)


def test_a_wrong_tokenizer_ends_the_load_process_with_a_sentence(tmp_path: Path) -> None:
    config = load_config(
        tmp_path, "http://127.0.0.1:9/v1", closed_schedule(1, 1), tokenizer="/nowhere.json"
    )
    with pytest.raises(UsageError, match=r"the tokenizer /nowhere\.json does not exist"):
        run_load(config, lambda progress: None)
    assert json.loads((tmp_path / "load.config.json").read_text())["tokenizer"] == "/nowhere.json"
