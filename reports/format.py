"""Every number of the report as text: 2 to 3 significant figures, never finer than its interval.

Times arrive in seconds and are shown in ms or s; ratios carry ×; a minus is a real minus sign.
"""

import math
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from teardown.records import Estimate

SIGNIFICANT = 3
MISSING = "—"
NBSP = "\u00a0"  # a number and its unit stay on one line
NO_CHANGE = "~ no measurable change"
# An interval is written with at least three steps to its half width, so that it keeps its shape.
STEPS_PER_HALF_WIDTH = 3.0
# Above this ratio a change reads better as a multiple than as a percentage.
MULTIPLE_FROM = 2.0

Tone = Literal["better", "worse", "same", "unknown"]


class Change(NamedTuple):
    """A ratio in words, its interval, and whether it is good news."""

    text: str
    interval: str
    tone: Tone


def clean(text: str) -> str:
    """Return `text` without control, direction-override and unpaired surrogate characters."""
    return "".join(" " if c in "\t\r\n" else c for c in text if c in "\t\r\n" or _is_printable(c))


def _is_printable(character: str) -> bool:
    category = unicodedata.category(character)
    return category not in {"Cc", "Cs", "Co", "Cn"} and character not in _DIRECTION_OVERRIDES


_DIRECTION_OVERRIDES = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def decimals_for(value: float, estimate: Estimate | None = None, scale: float = 1.0) -> int:
    """Return how many decimals `value` deserves: three figures, coarser where the interval is."""
    if value == 0 or not math.isfinite(value):
        return 0
    decimals = SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))
    if estimate is not None and estimate.low is not None and estimate.high is not None:
        half = (estimate.high - estimate.low) * scale / 2
        if half > 0 and math.isfinite(half):
            coarsest = -math.floor(math.log10(half / STEPS_PER_HALF_WIDTH))
            decimals = min(decimals, coarsest)
    return max(-12, min(decimals, 12))


def fixed(value: float, decimals: int) -> str:
    """Return `value` rounded to `decimals` (negative: to tens, hundreds) with a real minus."""
    if not math.isfinite(value):
        return "not finite"
    rounded = round(value, decimals)
    if rounded == 0:
        rounded = 0.0  # no minus zero
    return f"{rounded:,.{max(decimals, 0)}f}".replace("-", "−")


def number(value: float | None) -> str:
    """Return `value` with three significant figures and no idle zeros after the point."""
    if value is None:
        return MISSING
    text = fixed(value, decimals_for(value))
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int) -> str:
    """Return a whole number with separators, exact."""
    return f"{value:,}".replace("-", "−")


def plural(value: int, noun: str) -> str:
    """Return a count with its noun, such as `1 run` or `4 pairs`."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def capitalised(text: str) -> str:
    """Return `text` with its first letter large and the others as they are."""
    return text[:1].upper() + text[1:]


def percent(ratio: float | None) -> str:
    """Return a share of one as a whole percentage, with one decimal below 10 %."""
    if ratio is None:
        return MISSING
    return f"{fixed(100 * ratio, 1 if 0 < abs(ratio) < 0.0995 else 0)}{NBSP}%"


class Scale(NamedTuple):
    """What to multiply by and what to write behind it."""

    factor: float
    suffix: str


_SUFFIXES = {
    "count": "",
    "1/s": f"{NBSP}/s",
    "tokens/s": f"{NBSP}tok/s",
    "usd_per_1m_tokens": " USD per 1M tokens",
    "usd": f"{NBSP}USD",
}


def scale_of(unit: str, *values: float | None) -> Scale:
    """Return the scale for values of `unit` that are shown side by side; seconds become ms."""
    largest = max((abs(v) for v in values if v is not None), default=0.0)
    if unit == "s":
        return Scale(1000.0, f"{NBSP}ms") if largest < 1 else Scale(1.0, f"{NBSP}s")
    if unit in ("share", "ratio"):
        return Scale(100.0, f"{NBSP}%")
    if unit == "bytes":
        power = next((p for p in (9, 6, 3) if largest >= 10**p), 0)
        return Scale(10.0**-power, NBSP + {9: "GB", 6: "MB", 3: "kB", 0: "B"}[power])
    return Scale(1.0, _SUFFIXES.get(unit, f"{NBSP}{unit}" if unit else ""))


def quantity(value: float | None, unit: str, scale: Scale | None = None) -> str:
    """Return `value` with its unit, such as `71 ms`."""
    if value is None:
        return MISSING
    if unit == "switch":
        return "on" if value else "off"
    scale = scale or scale_of(unit, value)
    return number(value * scale.factor) + scale.suffix


def point(estimate: Estimate | None, scale: Scale) -> str:
    """Return the value of an estimate alone, no finer than its interval."""
    if estimate is None:
        return MISSING
    value = estimate.value * scale.factor
    return fixed(value, decimals_for(value, estimate, scale.factor)) + scale.suffix


def bounds(estimate: Estimate, factor: float = 1.0) -> str:
    """Return `[low, high]` of an estimate, or an empty text where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    decimals = decimals_for(estimate.value * factor, estimate, factor)
    return f"[{fixed(estimate.low * factor, decimals)}, {fixed(estimate.high * factor, decimals)}]"


def measured(estimate: Estimate | None, unit: str, scale: Scale | None = None) -> str:
    """Return value, unit and interval, such as `71 ms [68, 75]`."""
    if estimate is None:
        return MISSING
    scale = scale or scale_of(unit, estimate.value)
    return f"{point(estimate, scale)} {bounds(estimate, scale.factor)}".rstrip()


def factor(estimate: Estimate | None) -> str:
    """Return a ratio with its interval, such as `1.31× [1.24, 1.38]`.

    Decimals are added until the bounds stand on the same side of 1 as they do in truth.
    """
    if estimate is None:
        return MISSING
    decimals = ratio_decimals(estimate)
    text = f"{fixed(estimate.value, decimals)}×"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{fixed(estimate.low, decimals)}, {fixed(estimate.high, decimals)}]"


def ratio_decimals(estimate: Estimate) -> int:
    """Return the decimals of a ratio; enough to show that its interval leaves out 1."""
    decimals = max(decimals_for(estimate.value, estimate), 0)
    if estimate.excludes_one and estimate.low is not None and estimate.high is not None:
        nearest = estimate.low if estimate.low > 1 else estimate.high
        while round(nearest, decimals) == 1 and decimals < SIGNIFICANT + 1:
            decimals += 1
    return decimals


def inverted(estimate: Estimate) -> Estimate:
    """Return the ratio the other way round, such as before/after as after/before."""

    def inverse(value: float | None) -> float | None:
        return None if value is None or value == 0 else 1 / value

    return replace(
        estimate,
        value=1 / estimate.value if estimate.value else math.inf,
        low=inverse(estimate.high),
        high=inverse(estimate.low),
    )


def change(estimate: Estimate | None, better: Literal["higher", "lower"]) -> Change:
    """Return the change `after / before` in words; one whose interval spans 1 is no change."""
    if estimate is None:
        return Change("not measured", "", "unknown")
    ratio = estimate.value
    if estimate.low is None or estimate.high is None:
        return Change(f"{factor(estimate)} of before", "no interval: no claim", "unknown")
    if not estimate.excludes_one:
        return Change(NO_CHANGE, factor(estimate), "same")
    tone: Tone = "better" if (ratio > 1) == (better == "higher") else "worse"
    decimals = max(ratio_decimals(estimate) - 2, 0)
    if ratio >= MULTIPLE_FROM:
        return Change(f"{fixed(ratio, ratio_decimals(estimate))}× as high", _plain(estimate), tone)
    if ratio > 1:
        low, high = 100 * (estimate.low - 1), 100 * (estimate.high - 1)
        word, value = "higher", 100 * (ratio - 1)
    else:
        low, high = 100 * (1 - estimate.high), 100 * (1 - estimate.low)
        word, value = "lower", 100 * (1 - ratio)
    interval = f"[{fixed(low, decimals)}, {fixed(high, decimals)}] %"
    return Change(f"{fixed(value, decimals)} % {word}", interval, tone)


def _plain(estimate: Estimate) -> str:
    return factor(estimate).partition(" ")[2] + " ×"


def moment(unix_s: float) -> str:
    """Return a Unix time as `2026-11-30 14:05 UTC`."""
    try:
        return datetime.fromtimestamp(unix_s, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "time unknown"


def span(start_unix_s: float, end_unix_s: float) -> str:
    """Return two Unix times as one range in UTC, the date once where it is the same."""
    start, end = moment(start_unix_s), moment(end_unix_s)
    if start == end:
        return start
    if start[:10] == end[:10]:
        return f"{start[:-4]} to {end[11:]}"
    return f"{start[:-4]} to {end}"


def duration(seconds: float) -> str:
    """Return a duration as `12 min` or `1 h 5 min`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{fixed(seconds, 0)} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"
