"""Runs and requests as text for a terminal."""

import math
from collections.abc import Sequence
from typing import Any

from teardown.records import ErrorBar, Estimate, Headline, Quantiles, Run, Window

SHOWN = ("request_id", "status", "ttft_s", "tpot_s", "e2e_s", "prompt_tokens", "output_tokens")


def run_text(run: Run) -> str:
    """Return a run's certificate and numbers; an invalid run shows its reasons and no numbers."""
    lines = [f"{run.run}: {run.validity.verdict.upper()}"]
    lines += [f"  {r.level}: {r.code}: {r.text}" for r in run.validity.reasons]
    lines += [f"  note: {note}" for note in run.notes]
    if run.summary is None:
        return "\n".join([*lines, "  no numbers are shown for an invalid run"])
    by_status = ", ".join(f"{n} {status}" for status, n in run.summary.num_by_status.items())
    lines.append(f"  requests: {by_status}")
    for name, window in (("plateau", run.summary.plateau), ("whole run", run.summary.whole)):
        lines += _window_text(name, window)
    if run.validity.error_bar is not None:
        lines.append(f"  {error_bar_text(run.validity.error_bar)}")
    return "\n".join(lines)


def error_bar_text(bar: ErrorBar) -> str:
    """Return in one line what the client adds to the numbers at most, and from what it is known."""
    if bar.ttft_s is None or bar.gap_s is None:
        return f"what the client adds to TTFT is unknown ({bar.method})"
    return (
        f"the client adds at most {quantity(bar.ttft_s * 1e3, 'ms', 2)} to TTFT and "
        f"{quantity(bar.gap_s * 1e3, 'ms', 2)} to a gap (p99, from the {bar.method})"
    )


def _window_text(name: str, window: Window) -> list[str]:
    kept = f", promise kept by {estimate(window.attainment, percent=True)}"
    rate = window.output_tokens_per_s
    return [
        f"  {name}, {window.end_s - window.start_s:.1f} s: "
        f"{'' if rate is None else f'{rate:.1f} output tokens/s'}"
        f"{kept if window.attainment else ''}",
        f"    TTFT {quantile_text(window.ttft_s)}",
        f"    E2E  {quantile_text(window.e2e_s)}",
        f"    TPOT {quantile_text(window.tpot_s)}",
        *_voice_text(window),
    ]


def _voice_text(window: Window) -> list[str]:
    if window.ttfo_s is None or window.silence_s is None:
        return []
    return [
        f"    TTFO {quantile_text(window.ttfo_s)}",
        f"    silence a turn {quantile_text(window.silence_s)}",
    ]


def quantile_text(found: Quantiles) -> str:
    """Return the percentiles that may be shown, with n; the others with the samples they lack."""
    shown = [
        f"{name} {estimate(value)}"
        for name in ("p50", "p90", "p95", "p99")
        if (value := getattr(found, name)) is not None
    ]
    mean = "" if found.mean is None else f"mean {found.mean:.3g} s, "
    withheld = f" ({', '.join(found.withheld)} withheld: n too small)" if found.withheld else ""
    return f"{mean}{', '.join(shown) or 'no percentile'}, n = {found.n}{withheld}"


def estimate(value: Estimate | None, *, percent: bool = False) -> str:
    """Return a value with its interval; seconds, or a percentage."""
    if value is None:
        return "unknown"
    scale, unit = (100.0, " %") if percent else (1.0, " s")
    interval = (
        f" [{_end(value.low, scale)}, {_end(value.high, scale)}]"
        if value.low is not None or value.high is not None
        else ""
    )
    return f"{value.value * scale:.3g}{unit}{interval}"


def _end(value: float | None, scale: float) -> str:
    return "open" if value is None else f"{value * scale:.3g}"


def quantity(value: float, unit: str, figures: int = 3) -> str:
    """Return a value with its unit to `figures` figures, never as a power of ten; ratios as %."""
    scaled, shown = (100 * value, "%") if unit == "ratio" else (value, unit)
    if scaled == 0 or not math.isfinite(scaled):
        return f"{scaled:g} {shown}"
    decimals = figures - 1 - math.floor(math.log10(abs(scaled)))
    return f"{round(scaled, decimals):,.{max(0, decimals)}f} {shown}"


def headline_text(line: Headline) -> str:
    """Return one number before and after, with how it changed, or that it did not measurably."""
    before, after = (
        "unknown" if e is None else quantity(e.value, line.unit) for e in (line.before, line.after)
    )
    return f"{line.label}: {before} -> {after}{_change(line.change)}"


def _change(change: Estimate | None) -> str:
    if change is None or change.low is None or change.high is None:
        return ""
    if change.low <= 1 <= change.high:
        return " (no measurable change)"
    return f" ({change.value:.2f}× better [{change.low:.2f}, {change.high:.2f}])"


def requests_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return the main columns of a run's requests, one line each."""
    cells = [list(SHOWN)] + [[_cell(row.get(name)) for name in SHOWN] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(SHOWN))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
