"""Sample engagements, one for every outcome that the report has to explain."""

import dataclasses
from pathlib import Path
from typing import Any

from reports.dossier import Dossier
from teardown.engagement import Engagement, write_atomic
from teardown.records import (
    Alert,
    Attribution,
    Bundle,
    Candidate,
    Environment,
    Estimate,
    Evidence,
    Headline,
    LaunchSpec,
    LeftAlone,
    OracleCheck,
    OracleResult,
    Pair,
    Plan,
    Quantiles,
    RuledOut,
    Run,
    Segment,
    Stack,
    Summary,
    Trial,
    Validity,
    ValidityReason,
    VerdictRecord,
    Window,
    to_json,
)
from teardown.settings import parse_settings

START = 1_796_040_000.0  # 2026-11-30
OUTCOMES = (
    "improved",
    "no_change_helps",
    "proposed_only",
    "invalid",
    "simulated",
    "abstained",
    "measured_only",
)

ENGAGEMENT = """\
client: Example Voice
target:
  kind: local
  engine: llama.cpp
  url: http://127.0.0.1:8080/v1
  model: smollm2
  launch: {with: xllamacpp, model: smollm2.gguf, options: {parallel: 1}}
hardware: {gpu: L40S, count: 2}
workloads:
  - {name: office-hours, kind: open, rate_per_s: 2.5, prompts: p.jsonl, regime: steady}
  - {name: night-batch, kind: closed, concurrency: 8, prompts: p.jsonl}
promises: {ttft_s: {p95: 0.8}, tpot_s: {p95: 0.05}, attainment: 0.95}
goal: {metric: ttft_p50, at_least: 1.2}
prices: {gpu_hour_usd: 3.5, dated: "2026-11-30"}
"""


def estimate(value: float, spread: float = 0.05, n: int = 4) -> Estimate:
    """An estimate whose interval is `spread` of its value to both sides."""
    return Estimate(
        value=value,
        low=value * (1 - spread),
        high=value * (1 + spread),
        n=n,
        method="t on the logs of the ratios",
    )


def stack(after: bool = False) -> Stack:
    """The original stack, or the tuned one."""
    parallel = 8 if after else 1
    return Stack(
        engine="llama.cpp",
        launcher="xllamacpp",
        version="b7214",
        model="models/smollm2-135m.gguf",
        served_model="smollm2",
        options={"parallel": parallel, "ctx-size": 4096, "cache-type-k": "f16"},
        effective={
            "parallel": parallel,
            "ctx-size": 4096,
            "cache-type-k": "f16",
            "batch-size": 2048,
            "flash-attn": True,
        },
    )


def quantiles(p50: float, n: int = 240) -> Quantiles:
    """Percentiles of a log-normal kind; p99 withheld."""
    return Quantiles(
        n=n,
        mean=p50 * 1.2,
        p50=estimate(p50, 0.04, n),
        p90=estimate(p50 * 1.9, 0.07, n),
        p95=estimate(p50 * 2.6, 0.11, n),
        p99=None,
        withheld={"p99": f"n too small: {n} of 662 samples"},
    )


def window(ttft: float, rate: float, attainment: float) -> Window:
    """One window of a run."""
    return Window(
        start_s=4.0,
        end_s=124.0,
        num_requests=240,
        num_failed=1,
        requests_per_s=rate / 61,
        output_tokens_per_s=rate,
        prompt_tokens=475_200,
        cached_tokens=None,
        output_tokens=14_640,
        ttft_s=quantiles(ttft),
        tpot_s=quantiles(0.0193),
        e2e_s=quantiles(ttft + 1.2),
        client_wait_s=quantiles(0.0004),
        max_gap_s=quantiles(0.044),
        attainment=estimate(attainment, 0.03, 240),
        goodput_per_s=attainment * rate / 61,
    )


def check(code: str, value: float | None, level: str = "ok", text: str = "") -> ValidityReason:
    """One validity check."""
    return ValidityReason(
        code=code,
        level=level,  # type: ignore[arg-type]  # the caller names a level
        measure=f"measure of {code.replace('_', ' ')}",
        value=value,
        warn=0.05,
        invalid=0.2,
        text=text or "within its bounds",
    )


def validity(*bad: ValidityReason) -> Validity:
    """A certificate: valid unless a bad check is given."""
    levels = {b.level for b in bad}
    good = [
        check("client_limited", 0.008),
        check("schedule_not_kept", 0.021),
        check("warm_cache", None, text="the engine does not report cached tokens"),
        check("errors", 0.0042),
    ]
    return Validity(
        verdict="invalid" if "invalid" in levels else ("warnings" if bad else "valid"),
        reasons=list(bad),
        checks=[c for c in good if c.code not in {b.code for b in bad}] + list(bad),
    )


def run(number: int, name: str, ttft: float, **changes: Any) -> Run:
    """One run of the office-hours workload."""
    rate = 152.0 * (0.41 / ttft) ** 0.2
    summary = Summary(
        num_by_status={"ok": 239, "timeout": 1},
        plateau=window(ttft, rate, 0.71 if ttft > 0.3 else 0.972),
        whole=window(ttft * 1.02, rate * 0.95, 0.7 if ttft > 0.3 else 0.97),
    )
    start = START + 600 * number
    made = Run(
        run=f"r{number:04d}-{name}-office-hours",
        stack=name,
        workload="office-hours",
        regime="steady",
        salt=f"salt-{number}",
        seed=1,
        schedule_sha256="5c" * 32,
        target=stack(after=name == "after"),
        segments=[Segment(started_unix_s=start, ended_unix_s=start + 130, ended="complete")],
        validity=validity(),
        summary=summary,
    )
    return dataclasses.replace(made, **changes)


def attribution(**changes: Any) -> Attribution:
    """A diagnosis: waiting, because the server admits one request at a time."""
    made = Attribution(
        run="r0001-before-office-hours",
        validity=validity(),
        time_class="scheduling",
        cause="batch_cap",
        confidence=0.86,
        abstained=False,
        shares={
            "prefill": 0.14,
            "decode": 0.21,
            "kv_bandwidth": 0.02,
            "scheduling": 0.55,
            "host": 0.03,
            "client": 0.0,
            "interconnect": 0.0,
            "unexplained": 0.05,
        },
        overshoot=0.0,
        evidence=[
            Evidence(
                name="step_time",
                value=0.0121,
                unit="s",
                source="engine log",
                says="a step with eight sequences takes no longer than one",
                supports="decode",
            ),
            Evidence(
                name="slots_busy",
                value=0.98,
                unit="share",
                source="metrics",
                says="the only slot is taken nearly all the time",
                supports="batch_cap",
            ),
            Evidence(
                name="queue_time_p50",
                value=0.289,
                unit="s",
                source="server timings",
                says="the median request waits before any work is done on it",
                supports="scheduling",
            ),
        ],
        ruled_out=[
            RuledOut(time_class="host", because="the CPU idles 71 % of the time"),
            RuledOut(time_class="client", because="send lag stays under 1 %"),
        ],
        would_disprove=["Eight slots leave the queue time where it is."],
        causes={"batch_cap": 0.5, "weights_bandwidth": 0.12},
        notes=[],
    )
    return dataclasses.replace(made, **changes)


def candidate(name: str, title: str, predicted: float, **changes: Any) -> Candidate:
    """One planned change."""
    made = Candidate(
        candidate=name,
        title=title,
        lever="batching",
        changes={"parallel": 8},
        predicted=estimate(predicted, 0.15, 1),
        reason="Requests wait for the only slot while the step time hardly grows with the batch.",
        cause="batch_cap",
        risk="low",
        changes_answers=None,
        watch="p95 of the time per output token",
        undo="set parallel to 1 and restart",
    )
    return dataclasses.replace(made, **changes)


def plan() -> Plan:
    """Four candidates and two settings left alone."""
    return Plan(
        run="r0001-before-office-hours",
        goal_metric="ttft_p50",
        at_least=1.2,
        candidates=[
            candidate("slots-8", "Serve eight requests at once", 2.2),
            candidate(
                "kv-q8",
                "Keep the cache at 8 bits",
                1.12,
                lever="kv_cache",
                changes={"cache-type-k": "q8_0", "cache-type-v": "q8_0"},
                changes_answers="keys and values are rounded to 8 bits",
                risk="medium",
                cause=None,
            ),
            candidate("batch-512", "Shorter prompt steps", 1.05, changes={"batch-size": 512}),
            candidate(
                "draft",
                "Guess tokens ahead with a draft model",
                1.2,
                lever="speculative",
                changes={"model-draft": "draft.gguf"},
                risk="high",
            ),
        ],
        left_alone=[
            LeftAlone(setting="flash-attn", value="on", because="on already, and it helps"),
            LeftAlone(setting="ctx-size", value="4096", because="the longest prompt needs 3,900"),
            LeftAlone(setting="threads", value="8", because="the host is not what limits"),
        ],
        notes=["Speculation was not tried: no draft model fits the memory left."],
    )


def oracle(passed: bool = True) -> OracleResult:
    """The accuracy gate, held or failed."""
    return OracleResult(
        passed=passed,
        reference_sha256="ab" * 32,
        num_prompts=8,
        num_tokens=384,
        checks=[
            OracleCheck(
                name="same_rollouts",
                value=1.0 if passed else 0.25,
                band=0.875,
                holds=passed,
                says="whole answers that are the same as the reference",
            ),
            OracleCheck(
                name="first_divergence",
                value=None if passed else 11.0,
                band=20.0,
                holds=passed,
                says="no answer diverges" if passed else "answers part after 11 tokens",
            ),
        ],
    )


def trial(name: str, kind: str, candidates: list[str], effect: Estimate, **changes: Any) -> Trial:
    """A finished trial."""
    made = Trial(
        trial=name,
        kind=kind,  # type: ignore[arg-type]  # the caller names a kind
        candidates=candidates,
        changes={"parallel": 8},
        stack=stack(after=True),
        oracle=oracle(),
        pairs=[],
        effect=effect,
        secondary={},
        state="done",
        decision="kept",
        because="faster in every pair, answers unchanged",
        started_unix_s=START + 3000,
        ended_unix_s=START + 4000,
    )
    return dataclasses.replace(made, **changes)


def pairs(befores: list[float], afters: list[float]) -> list[Pair]:
    """Pairs in ABBA order; the last one is set aside."""
    return [
        Pair(
            run_before=f"r{2 * i + 2:04d}-before-office-hours",
            run_after=f"r{2 * i + 3:04d}-after-office-hours",
            before=before,
            after=after,
            first="before" if i % 2 == 0 else "after",
            equal_work=0.002,
            excluded="cached tokens differ by 7 %" if i == 4 else None,
        )
        for i, (before, after) in enumerate(zip(befores, afters, strict=True))
    ]


BEFORES = [0.412, 0.405, 0.421, 0.409, 0.35]
AFTERS = [0.181, 0.177, 0.186, 0.174, 0.19]
SAME = [0.408, 0.411, 0.418, 0.405, 0.36]


def trials(afters: list[float], helps: bool) -> list[Trial]:
    """Screens of three candidates and the proof of the best."""
    best = estimate(2.29, 0.04) if helps else estimate(1.004, 0.02)
    return [
        trial("t01-slots-8", "screen", ["slots-8"], estimate(2.35 if helps else 1.01, 0.09, 2)),
        trial(
            "t02-kv-q8",
            "screen",
            ["kv-q8"],
            estimate(1.15, 0.03, 2),
            oracle=oracle(passed=False),
            decision="rejected",
            because="answers part from the reference after 11 tokens",
        ),
        trial(
            "t03-batch-512",
            "screen",
            ["batch-512"],
            estimate(1.002, 0.04, 2),
            decision="no_change",
            because="no measurable change",
        ),
        trial(
            "t04-proof",
            "proof",
            ["slots-8"],
            best,
            pairs=pairs(BEFORES, afters),
            secondary={
                "tpot_p50": estimate(0.98, 0.04),
                "output_tokens_per_s": estimate(1.19, 0.03),
            },
            decision="kept" if helps else "no_change",
        ),
    ]


def headlines(helps: bool) -> list[Headline]:
    """The three numbers."""
    return [
        Headline(
            metric="ttft_p50",
            label="Median time to first token",
            unit="s",
            better="lower",
            before=estimate(0.412, 0.03),
            after=estimate(0.1795 if helps else 0.411, 0.03),
            change=estimate(2.29 if helps else 1.004, 0.04 if helps else 0.02),
        ),
        Headline(
            metric="output_tokens_per_s",
            label="Output tokens per second",
            unit="tok/s",
            better="higher",
            before=estimate(152.0, 0.02),
            after=estimate(181.0 if helps else 151.0, 0.02),
            change=estimate(1.19 if helps else 0.993, 0.03),
        ),
        Headline(
            metric="tpot_p50",
            label="Median time per output token",
            unit="s",
            better="lower",
            before=estimate(0.0193, 0.02),
            after=estimate(0.0195, 0.02),
            change=estimate(0.99, 0.03),
        ),
    ]


def verdict(outcome: str, helps: bool) -> VerdictRecord:
    """The verdict of an outcome."""
    sentences = {
        "improved": "The median user waits 180 ms for the first word instead of 412 ms: 56 % less, "
        "with the same answers.",
        "no_change_helps": "No change we tried makes this stack measurably faster: it is already "
        "set up well for this load, and the money is better kept.",
        "proposed_only": "The stack may not be restarted, so nothing was tried; three changes are "
        "proposed, the best expected to make first words 2.2 times as fast.",
    }
    untried = outcome == "proposed_only"
    shown = headlines(helps)
    if not helps and not untried:
        shown = []
    if untried:
        shown = [dataclasses.replace(h, after=None, change=None) for h in shown]
    return VerdictRecord(
        outcome=outcome,  # type: ignore[arg-type]  # the caller names an outcome
        sentence=sentences[outcome],
        goal_metric="ttft_p50",
        at_least=1.2,
        goal_reached=None if untried else helps,
        effect=None if untried else estimate(2.29 if helps else 1.004, 0.03),
        noise_floor=None
        if untried
        else Estimate(value=1.031, low=None, high=None, n=5, method="A/A"),
        headlines=shown,
        kept=["slots-8"] if helps else [],
        rejected={}
        if untried
        else {
            "kv-q8": "answers part from the reference after 11 tokens",
            "batch-512": "no measurable change: 1.002× [0.96, 1.04]",
            **({} if helps else {"slots-8": "no measurable change in four pairs"}),
        },
        proof_trial=None if untried else "t04-proof",
        original=stack(),
        accepted=stack(after=True) if helps else None,
        launch=None,
        oracle_sha256=None if untried else "ab" * 32,
        notes=["The night batch was not part of the proof."],
    )


def bundle() -> Bundle:
    """What was emitted."""
    return Bundle(
        service="example-voice",
        engagement="example-voice",
        stack=stack(after=True),
        previous=stack(),
        launch=LaunchSpec(
            argv=["{python}", "serve.py"],
            files={},
            env={},
            packages=["xllamacpp==2026.9"],
            health_path="/health",
            metrics_path="/metrics",
            start_timeout_s=60.0,
            drain_s=30.0,
        ),
        install_dir="/opt/llm-server",
        host="127.0.0.1",
        port=8080,
        model_sha256="cd" * 32,
        config_sha256="ef" * 32,
        alerts=[
            Alert(
                alert="FirstTokenSlow",
                expr="x > 0.8",
                for_s=300.0,
                severity="page",
                summary="First tokens are later than promised",
                runbook="runbook/first-token-slow.md",
            )
        ],
        files=["compose/compose.yaml", "terraform/main.tf", "runbook/index.md"],
    )


def dossier(outcome: str = "improved") -> Dossier:
    """Every record of one sample engagement."""
    helps = outcome in ("improved", "invalid", "simulated")
    afters = AFTERS if helps else SAME
    runs = [run(1, "before", 0.41)]
    if outcome not in ("proposed_only", "measured_only"):
        for i, (before, after) in enumerate(zip(BEFORES, afters, strict=True)):
            runs += [run(2 * i + 2, "before", before), run(2 * i + 3, "after", after)]
    diagnosis: Attribution | None = attribution()
    ending = outcome if outcome in ("improved", "no_change_helps", "proposed_only") else "improved"
    decided: VerdictRecord | None = verdict(ending, helps)
    tried = [] if outcome == "proposed_only" else trials(afters, helps)
    if outcome == "improved":
        text = "p99 send lag is 13 % of the mean interval"
        runs[3] = dataclasses.replace(
            runs[3], validity=validity(check("schedule_not_kept", 0.13, "warn", text))
        )
    if outcome == "invalid":
        text = "the load generator fell behind: p99 receive lag is 31 % of the median gap"
        runs[2] = dataclasses.replace(
            runs[2], validity=validity(check("client_limited", 0.31, "invalid", text))
        )
    if outcome == "simulated":
        runs = [dataclasses.replace(r, simulated=True) for r in runs]
    if outcome == "abstained":
        shares = {"prefill": 0.22, "decode": 0.31, "scheduling": 0.2, "unexplained": 0.27}
        diagnosis = attribution(
            time_class=None,
            cause=None,
            abstained=True,
            confidence=0.3,
            shares=shares,
            notes=["27 % of the time is not covered by the model; more than 15 % may not be."],
        )
        runs, decided, tried = runs[:1], None, []
    measured_only = outcome == "measured_only"
    return Dossier(
        settings=parse_settings(ENGAGEMENT),
        runs=runs,
        environments={
            r.run: Environment(values={"host": "box-1", "gpu_driver": "580.82", "cpu": "EPYC"})
            for r in runs
        },
        attribution=None if measured_only else diagnosis,
        plan=None if measured_only or outcome == "abstained" else plan(),
        trials=[] if measured_only else tried,
        verdict=None if measured_only else decided,
        bundle=bundle() if outcome == "improved" else None,
        unfinished=["r0099-before-night-batch"] if outcome == "improved" else [],
        sha256={"attribution.json": "01" * 32, "plan.json": "02" * 32},
    )


def write(folder: Path, sample: Dossier, settings: str = ENGAGEMENT) -> None:
    """Write the records of a sample as an engagement folder."""
    engagement = Engagement(folder)
    write_atomic(engagement.settings_path, settings)
    for made in sample.runs:
        write_atomic(engagement.run_dir(made.run) / "run.json", to_json(made))
    for run_id, environment in sample.environments.items():
        write_atomic(engagement.run_dir(run_id) / "environment.json", to_json(environment))
    for run_id in sample.unfinished:
        engagement.run_dir(run_id).mkdir(parents=True)
    for tried in sample.trials:
        write_atomic(engagement.trial_path(tried.trial), to_json(tried))
    for path, record in (
        (engagement.attribution_path, sample.attribution),
        (engagement.plan_path, sample.plan),
        (engagement.verdict_path, sample.verdict),
        (engagement.bundle_path, sample.bundle),
    ):
        if record is not None:
            write_atomic(path, to_json(record))
