"""Two single runs side by side: what differs, and why one pair makes no claim."""

import math
from pathlib import Path
from typing import Any

from teardown.engagement import Engagement
from teardown.errors import RunInvalid, UsageError
from teardown.records import Run, Window, read
from teardown.stats import ratio_of_pairs

METRICS = (("ttft_s", "lower"), ("e2e_s", "lower"), ("tpot_s", "lower"))


def compare_runs(folder: Path, run_a: str, run_b: str) -> dict[str, Any]:
    """Return the comparison as a document.

    UsageError for runs of different schedules, RunInvalid when either run is invalid.
    """
    engagement = Engagement(folder)
    a, b = (_read(engagement, name) for name in (run_a, run_b))
    if a.schedule_sha256 != b.schedule_sha256:
        raise UsageError(f"{run_a} and {run_b} sent different schedules, so they do not compare")
    for run in (a, b):
        if run.summary is None:
            raise RunInvalid(f"{run.run} is invalid, so it cannot be compared")
    assert a.summary is not None and b.summary is not None
    ratios: dict[str, Any] = {}
    for name, better in METRICS:
        ratios[name] = _ratio(
            _mean(a.summary.plateau, name), _mean(b.summary.plateau, name), better
        )
    ratios["output_tokens_per_s"] = _ratio(
        a.summary.plateau.output_tokens_per_s, b.summary.plateau.output_tokens_per_s, "higher"
    )
    return {
        "schema": "teardown.comparison/1",
        "run_a": run_a,
        "run_b": run_b,
        "claim": None,
        "because": "one pair: no claim",
        "improvement": ratios,
        "noise_floor": _noise_floor(engagement, a),
        "unequal_work": {
            name: _difference(getattr(a.summary.whole, name), getattr(b.summary.whole, name))
            for name in ("prompt_tokens", "output_tokens", "cached_tokens")
        },
    }


def comparison_text(document: dict[str, Any]) -> str:
    """Return the comparison for a terminal."""
    lines = [f"{document['run_a']} against {document['run_b']}: {document['because']}"]
    for name, ratio in document["improvement"].items():
        shown = "unknown" if ratio is None else f"{ratio:.2f}×"
        lines.append(f"  {name}: {shown} (above 1 is better)")
    floor = document["noise_floor"]
    lines.append(
        "  equal runs differ by an unknown amount: make a second run of the same stack"
        if floor is None
        else f"  equal runs of this stack differ by up to {floor:.2f}×"
    )
    return "\n".join(lines)


def _read(engagement: Engagement, name: str) -> Run:
    if name not in engagement.run_ids():
        known = ", ".join(engagement.run_ids()) or "none yet"
        raise UsageError(f"there is no run {name!r} in {engagement.folder}; runs: {known}")
    return read(Run, engagement.run_dir(name) / "run.json")


def _noise_floor(engagement: Engagement, like: Run) -> float | None:
    """Return the largest mean-E2E ratio between two valid runs of the same options and schedule."""
    means = []
    for name in engagement.run_ids():
        path = engagement.run_dir(name) / "run.json"
        run = read(Run, path) if path.exists() else None
        if run is None or run.summary is None:
            continue
        same = run.target.options == like.target.options
        mean = _mean(run.summary.plateau, "e2e_s")
        if same and run.schedule_sha256 == like.schedule_sha256 and mean:
            means.append(mean)
    return max(means) / min(means) if len(means) > 1 else None


def _mean(window: Window, name: str) -> float | None:
    mean: float | None = getattr(window, name).mean
    return mean


def _ratio(a: float | None, b: float | None, better: str) -> float | None:
    if not a or not b or not math.isfinite(a / b):
        return None
    found = ratio_of_pairs([(a, b)], better)
    return found.value if found else None


def _difference(a: int | None, b: int | None) -> float | None:
    if a is None or b is None:
        return None
    return abs(a - b) / max(a, b, 1)
