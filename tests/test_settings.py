"""`engagement.yaml`: unknown keys, wrong values, and what is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown.errors import TeardownError, UsageError
from teardown.settings import Settings, parse_settings

LOCAL = """client: Example "Voice" & Söhne
target: {kind: local, engine: llama.cpp, launch: {with: xllamacpp, options: {parallel: 1}}}
workloads:
  - {name: chats, kind: closed, prompts: p.jsonl, concurrency: 2}
"""


def test_a_full_file_is_read_with_its_defaults() -> None:
    settings = parse_settings(LOCAL)
    assert settings.client == 'Example "Voice" & Söhne'
    assert settings.target.launch is not None
    assert settings.target.launch.launcher == "xllamacpp"
    assert settings.privacy == "hash"
    assert settings.workloads[0].concurrency == 2


@pytest.mark.parametrize(
    ("wrong", "line", "right"),
    [
        ("promts: p.jsonl, prompts", 4, "prompts"),
        ("concurency", 4, "concurrency"),
    ],
)
def test_an_unknown_key_names_its_line_and_the_nearest_right_one(
    wrong: str, line: int, right: str
) -> None:
    name = "concurrency" if wrong == "concurency" else "prompts"
    with pytest.raises(UsageError, match=f"line {line}: unknown key .*did you mean `{right}`"):
        parse_settings(LOCAL.replace(f"{name}:", f"{wrong}:"))


def test_a_mistyped_key_in_a_nested_mapping_is_found() -> None:
    text = LOCAL.replace("{with:", "{wiht:")
    with pytest.raises(UsageError, match=r"line 2: unknown key `target\.launch\.wiht`"):
        parse_settings(text)


def test_a_wrong_value_names_where_it_stands() -> None:
    with pytest.raises(UsageError, match="concurrency"):
        parse_settings(LOCAL.replace("concurrency: 2", "concurrency: two"))


def test_an_open_workload_without_a_rate_is_refused() -> None:
    with pytest.raises(UsageError, match="rate_per_s"):
        parse_settings(LOCAL.replace("kind: closed", "kind: open"))


def test_an_unknown_goal_names_the_nearest_metric() -> None:
    with pytest.raises(UsageError, match="ttft_p50"):
        parse_settings(LOCAL + "goal: {metric: ttft_p5}\n")


def test_a_date_stays_as_it_is_written() -> None:
    settings = parse_settings(LOCAL + "prices: {gpu_hour_usd: 3.5, dated: 2026-11-30}\n")
    assert settings.prices.dated == "2026-11-30"


@given(st.text(max_size=200))
def test_no_text_ends_in_anything_but_settings_or_one_sentence(text: str) -> None:
    try:
        assert isinstance(parse_settings(text), Settings)
    except TeardownError as error:
        assert "\n" not in str(error).strip()
