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


OPEN = "kind: open, rate_per_s: 2, prompts: p.jsonl"


@pytest.mark.parametrize(
    ("load", "says"),
    [
        ("kind: closed", "`prompts`"),
        ("kind: closed, synthetic: {}", "`requests`"),
        ("kind: sweep, prompts: p", "`rates_per_s` or `concurrencies`"),
        ("kind: sweep, prompts: p, rates_per_s: [1], concurrencies: [1]", "has both"),
        ("kind: sweep, prompts: p, rates_per_s: [2, 1]", "must be above 0 and rise"),
        ("kind: ramp, prompts: p", "`rate_to_per_s` or `concurrency_to`"),
        ("kind: ramp, prompts: p, rate_to_per_s: 3", "`duration_s`"),
        ("kind: ramp, prompts: p, rate_to_per_s: 3, duration_s: 9", "needs `rate_per_s`"),
        ("kind: ramp, prompts: p, concurrency: 4, concurrency_to: 2, duration_s: 9", "below"),
        ("kind: capacity, prompts: p", "`rate_per_s`"),
        ("kind: capacity, rate_per_s: 2, prompts: p, regime: production", "fresh caches"),
        ("kind: trace", "`trace`"),
        ("kind: trace, trace: t, prompts: p", "has both `prompts` and `trace`"),
        ("kind: trace, trace: t, speed: 0", "`speed`"),
        ("kind: trace, trace: t, trace_format: csv", "trace_format"),
        ("kind: sessions, prompts: p, rate_per_s: 1, concurrency: 3", "has both"),
        ("kind: voice, voice: {turns: 0}", "`voice.turns`"),
        ("kind: voice, rates_per_s: [1]", "`rates_per_s` has no meaning"),
        ("kind: probe, probe: {short_tokens: 100, long_tokens: 200}", "4 times"),
        (f"{OPEN}, speed: 2", "`speed` has no meaning"),
        (f"{OPEN}, burstiness: 0.5", "`arrivals: gamma`"),
        (f"{OPEN}, arrivals: gamma, burstiness: 0", "`burstiness`"),
        (f"{OPEN}, synthetic: {{}}", "has both `prompts` and `synthetic`"),
        (
            "kind: closed, requests: 3, synthetic: {prompt_tokens: 10, shared_prefix_tokens: 10}",
            "shared_prefix_tokens",
        ),
        (
            "kind: closed, requests: 3, synthetic: {prompt_tokens: {mean: 0}}",
            r"synthetic\.prompt_tokens",
        ),
        ("kind: closed, requests: 3, synthetic: {prompt_token: 3}", "did you mean"),
        ("kind: ramp, concurrency_to: 4, duration_s: 9, synthetic: {}", "`requests`"),
        ("kind: probe, prompts: p", "cannot use `prompts`"),
        ("kind: voices", "voices"),
    ],
)
def test_a_workload_that_cannot_be_sent_names_its_key(load: str, says: str) -> None:
    text = LOCAL.rsplit("\n", 2)[0] + f"\n  - {{name: w, {load}}}\n"
    with pytest.raises(UsageError, match=says) as raised:
        parse_settings(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "load",
    [
        "kind: sweep, prompts: p, concurrencies: [1, 2, 8]",
        "kind: ramp, synthetic: {}, rate_per_s: 0, rate_to_per_s: 4, duration_s: 60",
        "kind: capacity, rate_per_s: 4, synthetic: {prompt_tokens: {mean: 900, cv: 0.6}}",
        "kind: trace, trace: t.jsonl, speed: 4, requests: 100",
        "kind: sessions, synthetic: {turns: 4}, requests: 40, concurrency: 10, think_s: 5",
        "kind: voice, concurrencies: [50, 100], voice: {turns: 4}",
        "kind: probe",
    ],
)
def test_every_kind_of_workload_is_read(load: str) -> None:
    text = LOCAL.rsplit("\n", 2)[0] + f"\n  - {{name: w, {load}}}\n"
    assert parse_settings(text).workloads[0].name == "w"
