"""Runs whose truth is known, and what the attribution makes of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teardown.classify.attribute import attribute
from teardown.classify.data import RunData
from teardown.records import Request, ValidityReason
from tests.classify.synthetic import CPU, GPU, MODEL, data, page, queue, request

TOLERANCE = 0.03


def _alone(num: int = 20, **kind: object) -> list[Request]:
    """Requests one after the other, so that nothing waits and nothing interferes."""
    found, at = [], 0.0
    for number in range(num):
        one = request(number, at, **kind)  # type: ignore[arg-type]
        found.append(one)
        at += (one.e2e_s or 0.0) + 0.01
    return found


def test_long_answers_at_the_bandwidth_are_decode_by_weights():
    found = attribute(data(_alone(tokens=200, prefill=0.01)))
    assert (found.time_class, found.cause) == ("decode", "weights_bandwidth")
    assert found.shares["decode"] == pytest.approx(0.94, abs=TOLERANCE)
    assert found.shares["prefill"] == pytest.approx(0.05, abs=TOLERANCE)
    assert not found.abstained


def test_long_contexts_are_cache_bandwidth():
    # 40,000 tokens of 1e5 bytes are 4 GB beside 1 GB of weights; 5 GB take 5 ms
    found = attribute(data(_alone(tokens=200, prefill=0.05, step=0.005, prompt=40_000)))
    assert (found.time_class, found.cause) == ("kv_bandwidth", "kv_bandwidth")
    assert found.shares["kv_bandwidth"] == pytest.approx(0.76, abs=TOLERANCE)
    assert found.shares["decode"] == pytest.approx(0.19, abs=TOLERANCE)


def test_a_step_far_above_its_bytes_is_the_hosts_where_graphs_are_off():
    slow = _alone(tokens=100, prefill=0.01, step=0.005)
    eager = attribute(data(slow, engine="vllm", options={"enforce-eager": True}))
    assert (eager.time_class, eager.cause) == ("host", "eager_mode")
    assert eager.shares["host"] == pytest.approx(0.65, abs=TOLERANCE)  # 1 GB at 0.6: 1.67 of 5 ms
    graphs = attribute(data(slow, engine="vllm", options={"max-num-seqs": 64}))
    assert (graphs.time_class, graphs.cause) == ("decode", "kernel_inefficient")
    assert graphs.confidence < eager.confidence


def test_a_slow_step_of_an_unknown_engine_stack_is_not_explained():
    found = attribute(data(_alone(tokens=100, prefill=0.01, step=0.005), engine="vllm"))
    assert found.abstained and found.time_class is None
    assert found.shares["unexplained"] > 0.5


def test_a_batch_above_the_largest_graph_is_graph_coverage():
    together = [request(i, 0.0, tokens=400, prefill=0.01, step=0.006) for i in range(16)]
    options = {"cudagraph-capture-sizes": "1 2 4"}
    found = attribute(data(together, engine="vllm", options=options))
    assert (found.time_class, found.cause) == ("host", "graph_coverage")


def test_waiting_for_a_slot_is_scheduling_where_a_larger_batch_is_nearly_free():
    found = attribute(
        data(queue(2, 16, 4, prefill=0.001, tokens=100), options={"parallel": 2}, hardware=GPU)
    )
    assert (found.time_class, found.cause) == ("scheduling", "batch_cap")
    assert found.shares["scheduling"] == pytest.approx(0.80, abs=0.08)
    assert found.notes  # no metrics page was there to see


def test_waiting_behind_prompts_is_prefill_where_only_computing_would_be_shared():
    found = attribute(
        data(
            queue(1, 8, 3, prefill=1.0, tokens=4, prompt=500),
            options={"parallel": 1},
            hardware=CPU,
        )
    )
    assert (found.time_class, found.cause) == ("prefill", "prefill_compute")
    assert found.shares["scheduling"] == 0.0
    assert found.shares["prefill"] > 0.9


def test_prompts_that_a_cache_should_have_served_are_a_cache_miss():
    requests = queue(1, 4, 3, prefill=1.0, tokens=4, prompt=500)
    missed = attribute(data(requests, options={"parallel": 1}, reusable_tokens_ratio=0.8))
    assert (missed.time_class, missed.cause) == ("prefill", "prefix_cache_miss")
    assert missed.causes["prefix_cache_miss"] > missed.causes["prefill_compute"]
    fresh = attribute(data(requests, options={"parallel": 1}, reusable_tokens_ratio=0.0))
    assert fresh.cause == "prefill_compute"


def test_a_warm_cache_is_said_before_anything_else():
    requests = [replace(r, cached_tokens=80) for r in _alone()]
    found = attribute(data(requests, reusable_tokens_ratio=0.0))
    assert found.notes[0].startswith("warm_cache: 80%")


def test_stalls_during_another_prompt_are_interference():
    prompts = [request(100 + i, 0.2 * i, prefill=0.15, tokens=2, prompt=8000) for i in range(10)]
    stalls = {1 + 30 * i: 0.15 for i in range(10)}
    readers = [
        request(i, 0.0, prefill=0.0001, tokens=400, step=0.0012, stalls=stalls) for i in range(8)
    ]
    found = attribute(data([*readers, *prompts]))
    assert (found.time_class, found.cause) == ("prefill", "prefill_interference")


def test_a_full_cache_is_kv_capacity_and_preemption_counts_as_waiting():
    requests = queue(4, 32, 3, prefill=0.001, tokens=100, timed=True)
    pages = [
        page([], 0.0, running=0.0, waiting=0.0, kv_usage_ratio=0.0),
        *(page(requests[: 8 * i], float(i), running=4.0, waiting=28.0, kv_usage_ratio=0.97,
               preemptions=float(i)) for i in range(1, 8)),
        page(requests, 9.0, running=0.0, waiting=0.0, kv_usage_ratio=0.0, preemptions=7.0),
    ]  # fmt: skip
    bare = [replace(r, server=None, cached_tokens=None) for r in requests]
    found = attribute(data(bare, engine="vllm", options={"max-num-seqs": 64}, scrapes={"u": pages}))
    assert (found.time_class, found.cause) == ("scheduling", "kv_capacity")


def test_a_cap_and_eager_mode_are_both_named():
    requests = queue(8, 64, 4, prefill=0.002, tokens=100, step=0.005)
    pages = [
        page(requests[: 32 * i], float(i), running=8.0, waiting=56.0, kv_usage_ratio=0.01)
        for i in range(9)
    ]
    bare = [replace(r, server=None, cached_tokens=None) for r in requests]
    options = {"max-num-seqs": 8, "enforce-eager": True}
    found = attribute(data(bare, engine="vllm", options=options, scrapes={"u": pages}))
    assert found.time_class == "scheduling"
    assert found.causes["batch_cap"] > 0.5
    assert found.causes["eager_mode"] > 0.3


def test_requests_sent_late_blame_the_client():
    found = attribute(data(_alone(late=2.0)))
    assert (found.time_class, found.cause) == ("client", "client_limited")


def test_starved_threads_of_a_cpu_engine_are_the_hosts():
    host = [{"cpu_s": 0.0, "run_delay_s": 0.0}, {"cpu_s": 2.0, "run_delay_s": 6.0}]
    found = attribute(data(_alone(tokens=200, prefill=0.01), hardware=CPU, host=host))
    assert (found.time_class, found.cause) == ("host", "cpu_starvation")
    on_gpu = attribute(data(_alone(tokens=200, prefill=0.01), hardware=GPU, host=host))
    assert on_gpu.time_class == "decode"


def test_an_endpoint_alone_cannot_tell_waiting_from_prefill():
    bare = [replace(r, server=None) for r in _alone(prefill=0.5)]
    found = attribute(data(bare, engine="unknown", model=None, hardware=None))
    assert found.abstained and found.confidence == 0.0
    assert "cannot be divided" in " ".join(found.notes)


def test_a_bandwidth_that_is_too_low_overshoots_and_abstains():
    low = replace(GPU, read_bandwidth_bytes_per_s=5e11)  # the step reads 1e12 bytes/s
    found = attribute(data(_alone(tokens=200, prefill=0.01), hardware=low))
    assert found.overshoot > 0.15 and found.abstained


def test_two_requests_are_too_few():
    found = attribute(data(_alone(num=2)))
    assert found.abstained and "only 2 complete requests" in found.notes[0]


def test_no_complete_request_is_no_answer():
    failed = [replace(r, status="error") for r in _alone(num=5)]
    found = attribute(data(failed))
    assert found.abstained and found.shares["unexplained"] == 1.0


def test_scrapes_that_stop_halfway_lower_the_confidence():
    requests = _alone(num=40, tokens=100, prefill=0.02)
    span = (requests[-1].sent_s or 0.0) + (requests[-1].e2e_s or 0.0)
    bare = [replace(r, server=None) for r in requests]

    def found(until: float) -> float:
        pages = [
            page(requests[: round(40 * i / 20)], 1000 + span * i / 20, running=1.0, waiting=0.0)
            for i in range(round(20 * until) + 1)
        ]
        given = data(bare, engine="vllm", options={"max-num-seqs": 64}, scrapes={"u": pages})
        return attribute(replace(given, unix_zero_s=1000.0)).confidence

    assert found(0.5) < 0.75 * found(1.0)


def test_an_invalid_run_halves_the_confidence():
    reason = ValidityReason(
        code="unsteady", level="invalid", measure="m", value=1.0, warn=0.1, invalid=0.5, text="t"
    )
    good = attribute(data(_alone()))
    bad = attribute(data(_alone(), verdict="invalid", reasons=[reason]))
    assert bad.confidence == pytest.approx(good.confidence / 2, abs=0.001)
    assert any("unsteady" in note for note in bad.notes)


def test_the_same_run_gives_the_same_answer():
    assert attribute(data(_alone())) == attribute(data(_alone()))


@st.composite
def any_request(draw: st.DrawFn) -> Request:
    second = st.floats(0, 30, allow_nan=False)
    made = request(
        draw(st.integers(0, 99)),
        draw(second),
        waiting=draw(second),
        prefill=draw(second),
        tokens=draw(st.integers(1, 12)),
        step=draw(st.floats(1e-6, 2)),
        prompt=draw(st.integers(0, 5000)),
        late=draw(st.none() | second),
        timed=draw(st.booleans()),
    )
    hidden = draw(st.sampled_from(["nothing", "ttft", "chunks", "tokens", "e2e", "failed"]))
    return {
        "nothing": made,
        "ttft": replace(made, ttft_s=None, chunk_s=[]),
        "chunks": replace(made, chunk_s=[]),
        "tokens": replace(made, output_tokens=None, prompt_tokens=None, cached_tokens=None),
        "e2e": replace(made, e2e_s=None),
        "failed": replace(made, status="cut"),
    }[hidden]


@st.composite
def any_run(draw: st.DrawFn) -> RunData:
    requests = draw(st.lists(any_request(), max_size=12))
    gauges = st.floats(0, 1)
    pages = [
        page(requests[:i], float(i), running=4 * draw(gauges), waiting=draw(gauges),
             kv_usage_ratio=draw(gauges), preemptions=draw(gauges))
        for i in range(draw(st.integers(0, 4)))
    ]  # fmt: skip
    return data(
        requests,
        engine=draw(st.sampled_from(["vllm", "llama.cpp", "unknown"])),
        options=draw(st.sampled_from([{}, {"parallel": 1}, {"enforce-eager": True}])),
        model=draw(st.sampled_from([MODEL, None])),
        hardware=draw(st.sampled_from([GPU, CPU, None])),
        scrapes={"u": pages} if pages else {},
        reusable_tokens_ratio=draw(st.none() | st.floats(0, 1)),
        host=draw(st.sampled_from([(), ({"cpu_s": 0, "run_delay_s": 0},
                                        {"cpu_s": 1, "run_delay_s": 1})])),
    )  # fmt: skip


@given(any_run())
def test_shares_always_sum_to_one_within_zero_and_one(run: RunData):
    found = attribute(run)
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=1e-4)
    assert all(0 <= share <= 1 for share in found.shares.values())
    assert all(0 <= share <= 1 for share in found.causes.values())
    assert 0 <= found.confidence <= 1 and found.overshoot >= 0
    assert found.abstained == (found.time_class is None)
