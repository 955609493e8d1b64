import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import format as fmt
from teardown.records import Estimate


def estimate(value: float, low: float | None, high: float | None, n: int = 4) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=n, method="one pair: no claim")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.071_23, "0.0712"),
        (1.5, "1.5"),
        (64_344.0, "64,300"),
        (-3.14159, "−3.14"),
        (float("nan"), "not finite"),
        (float("-inf"), "not finite"),
        (None, "—"),
    ],
)
def test_a_number_has_three_figures_and_a_real_minus(value: float | None, text: str) -> None:
    assert fmt.number(value) == text


def test_seconds_below_one_are_shown_in_ms_and_both_sides_share_the_unit() -> None:
    assert fmt.quantity(0.0712, "s") == "71.2\u00a0ms"
    scale = fmt.scale_of("s", 0.5, 64.344)
    assert fmt.quantity(0.5, "s", scale) == "0.5\u00a0s"


def test_a_value_is_never_finer_than_its_interval() -> None:
    assert fmt.measured(estimate(0.07123, 0.0421, 0.1002), "s") == "71\u00a0ms [42, 100]"
    assert fmt.factor(estimate(1.3127, 1.243, 1.384)) == "1.31× [1.24, 1.38]"
    assert fmt.factor(estimate(3.127, 1.243, 5.84)) == "3.1× [1.2, 5.8]"


def test_a_bound_that_excludes_one_still_does_when_rounded() -> None:
    assert "[1.004" in fmt.factor(estimate(1.3, 1.004, 1.7))


@pytest.mark.parametrize(
    ("ratio", "better", "text", "tone"),
    [
        ((0.436, 0.42, 0.45), "lower", "56.4 % lower", "better"),
        ((1.31, 1.24, 1.38), "higher", "31 % higher", "better"),
        ((1.31, 1.24, 1.38), "lower", "31 % higher", "worse"),
        ((2.44, 2.3, 2.6), "higher", "2.44× as high", "better"),
        ((1.02, 0.98, 1.06), "higher", "~ no measurable change", "same"),
    ],
)
def test_a_change_reads_as_words(
    ratio: tuple[float, float, float], better: str, text: str, tone: str
) -> None:
    found = fmt.change(estimate(*ratio), better)  # type: ignore[arg-type]
    assert (found.text, found.tone) == (text, tone)


def test_a_change_without_interval_is_no_claim() -> None:
    found = fmt.change(estimate(1.5, None, None, 1), "higher")
    assert found.tone == "unknown" and "no claim" in found.interval


@given(
    value=st.floats(1e-9, 1e9),
    spread=st.floats(1e-6, 10.0),
    unit=st.sampled_from(["s", "1/s", "share", "odd unit"]),
)
def test_any_estimate_can_be_written(value: float, spread: float, unit: str) -> None:
    text = fmt.measured(estimate(value, value / (1 + spread), value * (1 + spread)), unit)
    assert re.search(r"\d.*\[.*\d.*\]", text)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_float_can_be_written(value: float) -> None:
    assert fmt.number(value)
    assert fmt.percent(value)
    assert fmt.moment(value)
    if math.isfinite(value):
        assert "-" not in fmt.number(value)


@given(st.text())
def test_clean_text_can_be_written_to_a_file_and_hides_nothing(text: str) -> None:
    cleaned = fmt.clean(text)
    cleaned.encode()
    assert not set(cleaned) & set("\0\x1b\r\n\u202e\u2066")


def test_a_range_names_its_date_once() -> None:
    assert fmt.span(0, 3600) == "1970-01-01 00:00 to 01:00 UTC"
    assert fmt.span(0, 90_000) == "1970-01-01 00:00 to 1970-01-02 01:00 UTC"
