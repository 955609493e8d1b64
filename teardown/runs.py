"""A run's folder: what says that it has begun, its journal, and the record that is made of both.

The journal becomes the table only when the run is complete; the run's record is written last.
"""

import gzip
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from teardown.engagement import Engagement, write_atomic
from teardown.load.certificate import Conditions, certify
from teardown.load.expected import CALIBRATION_FILE
from teardown.load.journal import Attempt, Journal, read_journal
from teardown.load.summary import summarise
from teardown.load.table import write_requests
from teardown.records import (
    Calibration,
    Environment,
    Regime,
    Request,
    Run,
    Schedule,
    Segment,
    Stack,
    read,
    to_json,
)
from teardown.settings import Settings
from teardown.workload.finder import REMOVED, TextFinder
from teardown.workload.prompts import Prompt, reusable_ratio

RUN_FILE = "run.json"
BEGUN_FILE = "begun.json"
JOURNAL_FILE = "requests.wal.jsonl"
TABLE_FILE = "requests.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Written before the first request, so that a killed run can be finished."""

    stack: str
    workload: str
    schedule_sha256: str
    salt: str
    regime: Regime
    target: Stack


def finished_runs(engagement: Engagement) -> list[Run]:
    """Return every finished run, oldest first, also the invalid ones."""
    paths = (engagement.run_dir(name) / RUN_FILE for name in engagement.run_ids())
    return [read(Run, path) for path in paths if path.exists()]


def journal_of(folder: Path) -> Journal | None:
    """Return the journal of an unfinished run; None where nothing was sent yet."""
    path = folder / JOURNAL_FILE
    return read_journal(path) if path.exists() and path.stat().st_size else None


def finish(
    engagement: Engagement,
    settings: Settings,
    schedule: Schedule,
    prompts: list[Prompt],
    run_id: str,
    begun: Begun,
    log: str,
    notes: Sequence[str] = (),
) -> tuple[Run, list[Request]]:
    """Turn the journal into the table, certify, summarise, and write the run's record last."""
    folder = engagement.run_dir(run_id)
    journal = journal_of(folder)
    sent = [*journal.superseded, *journal.requests] if journal else []
    keeps_text = settings.privacy == "full"
    finder = TextFinder([] if keeps_text else [p.text for p in prompts])
    requests = [_without_text(replace(r, salt=begun.salt), finder) for r in sent]
    requests += _unsent(schedule, requests)
    attempts = journal.attempts if journal else []
    by_index = {p.index: p for p in prompts}
    kept = folder / CALIBRATION_FILE
    conditions = Conditions(
        is_open=schedule.is_open or schedule.is_live,
        concurrency=schedule.concurrency,
        rate_per_s=_rate_of(requests) if schedule.is_live else schedule.rate_per_s,
        is_stationary=schedule.is_stationary,
        num_intended=len(schedule.requests),
        reusable_ratio=reusable_ratio([by_index[r.prompt] for r in schedule.requests]),
        clock_moved_s=max(
            (a.closed["clock_offset_moved_s"] for a in attempts if a.closed), default=None
        ),
        receive_lag_p99_s=max((lag for a in attempts if (lag := _receive_lag(a))), default=None),
        error_budget=settings.limits.stop_if.error_ratio,
        calibration=read(Calibration, kept) if kept.exists() else None,
    )
    validity = certify(requests, conditions)
    summary = summarise(
        requests,
        settings.promises,
        concurrency=schedule.concurrency,
        is_open=schedule.is_open,
        is_live=schedule.is_live,
        speech=schedule.speech,
    )
    segments = [_segment(attempt) for attempt in attempts]
    run = Run(
        run=run_id,
        stack=begun.stack,
        workload=begun.workload,
        regime=begun.regime,
        salt=begun.salt,
        seed=schedule.seed,
        schedule_sha256=begun.schedule_sha256,
        target=begun.target,
        segments=segments,
        validity=validity,
        summary=None if validity.verdict == "invalid" else summary,
        notes=[
            f"attempt {number} was {segment.ended}; its requests in flight were sent again"
            for number, segment in enumerate(segments[:-1], 1)
        ]
        + [note for attempt in attempts for note in _notes_of(attempt)]
        + list(notes),
    )
    write_requests(folder / TABLE_FILE, requests)
    write_atomic(folder / "environment.json", to_json(_environment(settings, schedule)))
    if log:
        write_atomic(folder / "engine.log.gz", gzip.compress(finder.scrub(log).encode(), mtime=0))
    write_atomic(folder / RUN_FILE, to_json(run))
    (folder / JOURNAL_FILE).unlink(missing_ok=True)
    (folder / BEGUN_FILE).unlink(missing_ok=True)
    return run, requests


def _without_text(request: Request, finder: TextFinder) -> Request:
    """Return the record without what a server's error message quotes of the prompt."""
    if request.error is not None and finder.finds(request.error):
        return replace(request, error=REMOVED)
    return request


def _unsent(schedule: Schedule, requests: list[Request]) -> list[Request]:
    known = {r.request_id for r in requests}
    return [
        Request(
            request_id=item.request_id,
            status="unsent",
            session=item.session,
            turn=item.turn,
            intended_s=item.intended_s,
        )
        for item in schedule.requests
        if item.request_id not in known
    ]


def _rate_of(requests: list[Request]) -> float | None:
    """Return the mean rate at which turns were sent; None for fewer than two moments."""
    sent = [r.sent_s for r in requests if r.sent_s is not None]
    length_s = max(sent, default=0.0) - min(sent, default=0.0)
    return (len(sent) - 1) / length_s if length_s > 0 else None


def _notes_of(attempt: Attempt) -> list[str]:
    """Return what an attempt says of itself: lost workers, and why it stopped by itself."""
    closed = attempt.closed or {}
    because = closed.get("stopped_because")
    stopped = [f"sending stopped: {because}"] if because else []
    return [*closed.get("notes", []), *stopped]


def _receive_lag(attempt: Attempt) -> float | None:
    """Return the p99 receive lag of one attempt; None for a killed one and without stamps."""
    spread = (attempt.closed or {}).get("receive_lag")
    return float(spread["p99"]) if spread else None


def _segment(attempt: Attempt) -> Segment:
    started = float(attempt.opened["unix_zero"])
    base_s = float(attempt.opened.get("time_base_s", 0.0))
    return Segment(
        started_unix_s=started,
        ended_unix_s=started + attempt.last_s - base_s,
        ended="killed" if attempt.closed is None else attempt.closed["ended"],
    )


def _environment(settings: Settings, schedule: Schedule) -> Environment:
    from importlib.metadata import version

    return Environment(
        values={
            "teardown": version("teardown-kit"),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cpu_count": os.cpu_count(),
            "load_average": list(os.getloadavg()),
            "measured_unix_s": time.time(),
            "num_requests": len(schedule.requests),
            "access": msgspec.to_builtins(settings.access),
        }
    )
