"""The rows about what is made of a run's records: sums, percentiles, the certificate, the report.

`cases.py` has the rows as data.
"""

import itertools
import re
import time

import gevent
import pytest

from reports.render import render
from teardown.glossary import GLOSSARY
from teardown.load.client import Client, Endpoint
from teardown.records import Request
from teardown.stats import mean_of_runs, quantiles
from tests.fakes.engine import (
    FakeEngine,
    chat_events,
    chat_stream,
    chunk_document,
    sse,
    usage_document,
)
from tests.fakes.exchanges import SPLITS, request_of, streamed
from tests.fakes.loads import (
    closed_schedule,
)
from tests.load.cases import delta, ending, every
from tests.load.runs import (
    judged,
    level,
    placed,
    summed,
)
from tests.reports import samples

pytestmark = pytest.mark.parametrize("split", SPLITS)


def test_row_11_the_peak_is_counted_from_tokens(split: str) -> None:
    events = []
    for number in range(10):
        usage = usage_document(4 * (number + 1))
        document = chunk_document({"content": "a b c d "}, usage=usage)
        events.append((100.0 + 40 * number, sse(document)))
    events.append((460.0, ending(usage_document(40))))
    request = request_of(streamed(events, split))
    assert request.tpot_s is not None and request.max_gap_s is not None
    peak = 4 / request.max_gap_s
    assert peak == pytest.approx(100)
    assert 1 / request.tpot_s == pytest.approx(peak)  # never above it: 40 tokens in 360 ms is 111
    assert "several tokens" in GLOSSARY["max gap"].text


def test_row_29_the_drain_is_not_in_the_plateau(split: str) -> None:
    usual = request_of(streamed(chat_events(["a", "b"], first_ms=500, gap_ms=500), split))
    longest = request_of(streamed(chat_events(["a", "b"], first_ms=500, gap_ms=19_500), split))
    requests = [placed(usual, n, float(n // 10)) for n in range(99)]
    requests.append(placed(longest, 99, 9.0))
    found = summed(requests, concurrency=10)
    assert found.whole.requests_per_s == pytest.approx(100 / 29, rel=0.01)  # 3.4
    assert found.plateau.requests_per_s == pytest.approx(10, rel=0.02)
    assert (found.plateau.start_s, found.plateau.end_s) == pytest.approx((0.0, 10.0))


def test_row_30_tokens_of_unfinished_requests_count_where_they_arrived(split: str) -> None:
    def answer(count: int, *, is_cut: bool) -> Request:
        """Five tokens a second, each reported as it comes."""
        events = []
        for number in range(count):
            usage = usage_document(number + 1)
            document = chunk_document({"content": "a "}, usage=usage)
            events.append((200.0 * (number + 1), sse(document)))
        if is_cut:
            return request_of(streamed(events, split, ending="aborted", closed_s=None))
        return request_of(streamed([*events, (200.0 * count, ending(None))], split))

    whole, cut = answer(40, is_cut=False), answer(10, is_cut=True)
    assert (whole.status, cut.status, cut.output_tokens) == ("ok", "aborted", 10)
    requests = [placed(whole, n, 0.0) for n in range(4)]
    requests += [placed(cut, 4 + n, 8.0) for n in range(4)]  # the run ends at 10 s
    found = summed(requests, concurrency=4)
    for window in (found.plateau, found.whole):
        assert (window.start_s, window.end_s) == pytest.approx((0.0, 10.0))
        assert window.output_tokens_per_s == pytest.approx(20)  # without them 16


def test_row_32_a_percentile_has_an_interval_or_too_few_samples(split: str) -> None:
    def latency(number: int) -> Request:
        events = chat_events(["a", "b"], first_ms=100.0 + number, gap_ms=10)
        return placed(request_of(streamed(events, split)), number, float(number))

    found = summed([latency(number) for number in range(50)], concurrency=1).whole.ttft_s
    assert found.p99 is None
    assert found.withheld["p99"] == "n too small: 50 of 662 samples"
    assert found.p50 is not None
    assert found.p50.low is not None and found.p50.high is not None
    assert found.p50.low < found.p50.value < found.p50.high
    ends = quantiles([float(n) for n in range(700)]).p99
    assert ends is not None and ends.low is not None and ends.low < ends.value

    one = mean_of_runs([131.0])
    twelve = mean_of_runs([115.8 + 2.809 * n for n in range(12)])  # 115.8 to 146.7, as reported
    assert one is not None and not one.has_interval
    assert twelve is not None and twelve.low is not None and twelve.high is not None
    assert twelve.high - twelve.low > 10


def test_row_34_no_token_is_seen_where_none_arrived(split: str) -> None:
    events = every(100, 2, 10, content="x") + every(1118, 2, 10, content="x")
    request = request_of(streamed([*events, (1136.0, ending(usage_document(20)))], split))
    assert request.sent_s is not None
    found = [at - request.sent_s for at in request.chunk_s]
    buckets = [sum(low <= at < low + 0.4 for at in found) for low in (0.0, 0.4, 0.8)]
    assert buckets == [10, 0, 10]
    before, after = itertools.pairwise(found[8:12]), request.max_gap_s
    assert max(late - early for early, late in before) == pytest.approx(after)


def test_row_42_a_run_that_is_not_streamed_is_invalid(split: str) -> None:
    raw = b"".join(data for _, data in chat_events(["a", "b", "c"]))
    at_once = request_of(streamed([(1700.0, raw)], split))
    # a buffer that is let go comes in several reads, microseconds apart
    burst = [(1700.0 + 0.03 * n, delta(content="x")) for n in range(20)]
    in_reads = request_of(streamed([*burst, (1701.0, ending(usage_document(20)))], split))
    for request in (at_once, in_reads):
        assert request.ttft_s is None
        requests = [placed(request, n, 2.0 * n) for n in range(10)]
        validity = judged(requests, closed_schedule(10, 1))
        assert level(validity, "not_streaming") == validity.verdict == "invalid"


def test_row_44_a_late_read_is_not_prefill(split: str) -> None:
    timings = {"prompt_n": 10, "prompt_ms": 50.0, "predicted_n": 2, "predicted_ms": 20.0}
    answer = chat_stream(["a", "b"], first_ms=60, gap_ms=100, more={"timings": timings})
    with FakeEngine(answer, split=split) as fake:
        client = Client(Endpoint(fake.url), headers={}, timeout_s=5.0)
        poster = gevent.spawn(client.post, "/chat/completions", b"{}", lambda sent_s: None)
        gevent.sleep(0.03)
        time.sleep(0.1)  # the reader stands still until long after the first chunk
        exchange = poster.get()
        client.close()
    request = request_of(exchange)
    assert request.ttft_s == pytest.approx(0.06, abs=0.02)  # 0.13 by the time of the read
    assert request.server is not None
    assert request.server.prefill_s == 0.05  # the server's own word, apart from the first token
    assert "prefill" not in GLOSSARY["TTFT"].formula + GLOSSARY["TTFT"].text
    assert max(exchange.lags_s) > 0.04  # one read of many: no percentile need show it
    plan = closed_schedule(1, 1)
    validity = judged([request], plan, receive_lag_p99_s=max(exchange.lags_s))
    assert level(validity, "client_limited") == "invalid"


def test_row_46_the_report_asks_nothing_of_the_network(split: str) -> None:
    outcome = samples.OUTCOMES[SPLITS.index(split) % len(samples.OUTCOMES)]
    html = render(samples.dossier(outcome), "0.0.0")
    elsewhere = set(re.findall(r"https?://[^\s\"'<]+", html))
    assert elsewhere <= {"http://www.w3.org/2000/svg"}  # the name of a namespace, not an address
    assert not re.search(r"<(script|link|img|iframe)\b|url\(http|@import", html)
