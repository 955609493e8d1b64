"""The certificate of a run that somebody else sent: what can be judged, and why the rest cannot.

The checks and thresholds are those of the kit's own runs. A check that the file gives no measure
for has value None and says so; one that is only bounded is judged by its bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from teardown.imports.found import Found, Load
from teardown.load.certificate import ERROR_BUDGET, Conditions, certify, validity_of
from teardown.records import Request, Validity, ValidityReason

AGGREGATES: Final = ValidityReason(
    code="aggregates_only",
    level="invalid",
    measure="requests in the file",
    value=0.0,
    warn=0.0,
    invalid=0.0,
    text="the file holds no single request, so nothing can be recomputed or judged; its own "
    "numbers are kept as stated",
)
NO_TIMES: Final = replace(
    AGGREGATES,
    code="no_send_times",
    measure="requests with a send time",
    text="the file does not say when requests were sent, so the load they met cannot be judged",
)


def judge(found: Found, error_budget: float | None) -> Validity:
    """Return the validity of `found`; `invalid` where there is no request to judge it by."""
    if not found.requests:
        return validity_of([AGGREGATES])
    if all(r.sent_s is None for r in found.requests):
        return validity_of([NO_TIMES])
    load = found.load
    conditions = Conditions(
        is_open=load.is_open,
        concurrency=load.concurrency,
        rate_per_s=intended_rate(found.requests) or load.rate_per_s,
        num_intended=len(found.requests),
        reusable_ratio=0.0,
        clock_moved_s=None,
        error_budget=error_budget,
    )
    instead: dict[str, Callable[[ValidityReason], ValidityReason]] = {
        "client_limited": _client_limited,
        "schedule_not_kept": lambda check: _schedule(check, found),
        "warm_cache": lambda check: _warm_cache(check, found),
        "errors": lambda check: _errors(check, found, error_budget),
    }
    checks = certify(found.requests, conditions).checks
    return validity_of([instead[c.code](c) if c.code in instead else c for c in checks])


def _client_limited(check: ValidityReason) -> ValidityReason:
    text = "the tool took no kernel stamps: how late it read its bytes cannot be judged"
    return replace(check, value=None, level="ok", text=text)


def _schedule(check: ValidityReason, found: Found) -> ValidityReason:
    load = found.load
    if not load.is_open:
        text = "how many requests at once were asked for is not in the file"
        return check if load.is_asked else replace(check, value=None, level="ok", text=text)
    intended = intended_rate(found.requests)
    if intended is not None:
        asked = "" if load.rate_per_s is None else f", {load.rate_per_s:.3g} asked"
        text = f"{check.text}; their intended times come to {intended:.3g} a second{asked}"
        return replace(check, text=text)
    measure = "1 - achieved over asked rate"
    unknown = replace(check, measure=measure, value=None, level="ok")
    rate = achieved_rate(found.requests)
    if load.rate_per_s is None or rate is None:
        return replace(unknown, text="no rate was asked, or there are too few requests to see one")
    if not load.achieved_rate_is_meant:
        return replace(
            unknown,
            text="intended times are not in the file, and random arrivals come to another rate by "
            f"chance: {rate:.3g} a second were sent, {load.rate_per_s:.3g} asked",
        )
    missed = max(0.0, 1 - rate / load.rate_per_s)
    return graded(
        replace(
            check,
            measure=measure,
            value=missed,
            warn=0.02,
            invalid=0.10,
            text=f"{rate:.3g} requests a second were sent, {load.rate_per_s:.3g} asked",
        )
    )


def achieved_rate(requests: Sequence[Request]) -> float | None:
    """Return requests per second from the first send to the last; None below 3 requests."""
    return _rate([r.sent_s for r in requests if r.sent_s is not None])


def intended_rate(requests: Sequence[Request]) -> float | None:
    """Return the rate of the intended times; None below 3 requests that have one."""
    return _rate([r.intended_s for r in requests if r.intended_s is not None])


def _rate(times: Sequence[float]) -> float | None:
    if len(times) < 3 or max(times) <= min(times):
        return None
    return (len(times) - 1) / (max(times) - min(times))


def _warm_cache(check: ValidityReason, found: Found) -> ValidityReason:
    """Judge by the prompts' own sharing; where that is not known, by its bounds.

    What is unexplained then lies between nothing and all that came from the cache: a small hit
    ratio is fine, a large one is a warning, and no more than that.
    """
    known = [r for r in found.requests if r.cached_tokens is not None and r.prompt_tokens]
    ratio = found.hit_ratio
    if known:
        ratio = sum(r.cached_tokens or 0 for r in known) / sum(r.prompt_tokens or 0 for r in known)
    if ratio is None:
        text = "neither the answers nor a metrics page say what came from a cache"
        return replace(check, value=None, level="ok", text=text)
    text = f"{ratio:.1%} of prompt tokens came from a cache; "
    if found.reusable_ratio is not None:
        text += f"the run's own prompts explain up to {found.reusable_ratio:.1%}"
        return graded(replace(check, value=max(0.0, ratio - found.reusable_ratio), text=text))
    text += "how much of it the run's own prompts explain is not in the file"
    if ratio <= check.warn:
        return replace(check, value=ratio, level="ok", text=text)
    return replace(check, value=None, level="warn", text=text)


def _errors(check: ValidityReason, found: Found, error_budget: float | None) -> ValidityReason:
    """Leave out what was in flight when the tool stopped by its own limit: it did not fail."""
    stopped = sum(r.status in ("aborted", "unsent") for r in found.requests)
    ended = [r for r in found.requests if r.status not in ("aborted", "unsent")]
    intended = max(found.load.num_intended or 0, len(found.requests)) - stopped
    failures = sum(r.is_failed for r in ended) + max(0, intended - len(ended))
    budget = ERROR_BUDGET if error_budget is None else error_budget
    text = f"{failures} of {intended} requests failed or are not in the file"
    if stopped:
        text += f"; {stopped} more were in flight when the tool stopped, and are left out"
    return graded(
        replace(
            check,
            value=failures / intended if intended else 1.0,
            warn=min(0.005, budget),
            invalid=budget,
            text=text,
        )
    )


def graded(check: ValidityReason) -> ValidityReason:
    """Return `check` with the level that its value has."""
    value = check.value
    if value is None or value <= check.warn:
        return replace(check, level="ok")
    return replace(check, level="invalid" if value > check.invalid else "warn")


def load_of(found: Found) -> Load:
    """Return the load of `found`, with no more users than requests."""
    cap = max(1, min(found.load.concurrency, len(found.requests) or 1))
    return replace(found.load, concurrency=cap)
