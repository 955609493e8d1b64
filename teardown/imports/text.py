"""What was imported, as text for a terminal."""

from dataclasses import replace

from teardown.imports.entry import Imported, ImportedTraffic
from teardown.imports.found import Stated
from teardown.imports.keep import ImportedRun
from teardown.imports.traffic import Traffic
from teardown.records import Quantiles
from teardown.text import run_text

# A log of fewer requests has no percentile that may be shown for most of these.
SHOWN = ("p50", "p90", "p95", "p99")


def imported_text(imported: Imported) -> str:
    """Return the runs or the traffic, and what cannot be recovered."""
    if isinstance(imported, ImportedTraffic):
        return _traffic_text(imported.traffic, str(imported.trace))
    blocks = [_run_block(one, is_only=len(imported) == 1) for one in imported]
    lost = list(dict.fromkeys(s for one in imported for s in one.origin.cannot_recover))
    return "\n".join([*blocks, *_lost_lines(lost)])


def _run_block(one: ImportedRun, *, is_only: bool) -> str:
    """Return one run; what the tool itself stated is shown where there is but one."""
    notes = [note for note in one.run.notes if not note.startswith("cannot be recovered: ")]
    lines = [run_text(replace(one.run, notes=notes))]
    if not one.is_new:
        lines.append("  this file was imported before; nothing was added")
    if one.origin.stated and is_only:
        ours = " (recomputed by ours)" if one.run.summary is not None else ""
        lines.append(f"  as {one.origin.tool} states it by its own definitions{ours}:")
        lines += [_stated_line(stated) for stated in one.origin.stated]
    return "\n".join(lines)


def _stated_line(stated: Stated) -> str:
    ours = "" if stated.ours is None else f" ({stated.ours:.4g} {stated.unit})"
    says = f": {stated.says}" if stated.says else ""
    return f"    {stated.name} {stated.value:.4g} {stated.unit}{ours}{says}"


def _lost_lines(lost: list[str]) -> list[str]:
    return ["cannot be recovered:", *(f"  {sentence}" for sentence in lost)] if lost else []


def _traffic_text(traffic: Traffic, trace: str) -> str:
    lines = [
        f"{trace}: {traffic.num_requests} of {traffic.num_arrivals} requests, "
        f"{traffic.duration_s:.0f} s",
        "  columns: " + ", ".join(f"{c} as {f}" for f, c in traffic.columns.items()),
        f"  arrivals: {_number(traffic.rate_per_s)} a second, at most "
        f"{_number(traffic.peak_rate_per_s)} over 10 s; burstiness {_number(traffic.burstiness)} "
        "(gamma shape; 1 is Poisson, below 1 in bursts)",
        f"  prompt tokens: {_lengths(traffic.prompt_tokens)}",
        f"  output tokens: {_lengths(traffic.output_tokens)}",
    ]
    if traffic.num_sessions is not None and traffic.turns and traffic.between_turns_s:
        lines.append(
            f"  sessions: {traffic.num_sessions}, turns {_lengths(traffic.turns)}; "
            f"between turns {_lengths(traffic.between_turns_s)} s"
        )
    lines.append(
        f"  prefix cache: could serve {_percent(traffic.reachable_prefix_ratio)} of prompt tokens, "
        f"did serve {_percent(traffic.served_prefix_ratio)}"
    )
    return "\n".join([*lines, *_lost_lines(traffic.cannot_recover)])


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "an unknown part" if value is None else f"{value:.0%}"


def _lengths(found: Quantiles) -> str:
    if found.mean is None:
        return "unknown"
    shown = [
        f"{name} {_number(estimate.value)}"
        for name in SHOWN
        if (estimate := getattr(found, name)) is not None
    ]
    withheld = "" if len(shown) == len(SHOWN) else f"; the rest withheld: n = {found.n} too small"
    return f"mean {_number(found.mean)}{', ' if shown else ''}{', '.join(shown)}{withheld}"
