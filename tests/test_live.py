"""The live users' queue and latency stop a run; our own requests do not."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from teardown.errors import TargetError
from teardown.live import LiveGuard, Ours
from teardown.load.journal import read_journal
from teardown.load.run import run_load
from teardown.load.table import read_requests
from teardown.settings import StopIf
from tests.desk import finish, start
from tests.fakes.engine import FakeEngine, Seen, chat_stream
from tests.fakes.loads import closed_schedule, load_config
from tests.fakes.scripts import Script, http_reply

BOUNDS = (0.1, 0.5, 1.0, 5.0)


def page(ttfts: Sequence[float], running: int = 0, waiting: int = 0) -> str:
    """A vLLM page after answers with these times to first token."""
    name = "vllm:time_to_first_token_seconds"
    label = 'engine="0",model_name="m"'
    lines = [f"# TYPE {name} histogram"]
    lines += [
        f'{name}_bucket{{{label},le="{bound}"}} {sum(t <= bound for t in ttfts)}'
        for bound in (*BOUNDS, float("inf"))
    ]
    lines += [f"{name}_sum{{{label}}} {sum(ttfts)}", f"{name}_count{{{label}}} {len(ttfts)}"]
    for gauge, value in (("running", running), ("waiting", waiting)):
        lines += [
            f"# TYPE vllm:num_requests_{gauge} gauge",
            f"vllm:num_requests_{gauge}{{{label}}} {value}",
        ]
    return "\n".join(lines).replace('le="inf"', 'le="+Inf"') + "\n"


class Scene:
    """A guard whose page, clock and own load are set by the test."""

    def __init__(self, engine: str = "vllm", **rule: float) -> None:
        self.page, self.now_s, self.ours = page([]), 100.0, Ours(0, [])
        self.guard = LiveGuard(
            engine=engine,
            urls=["http://h/metrics"],
            rule=StopIf(**rule),  # type: ignore[arg-type]
            ours=lambda: self.ours,
            read=lambda url: self.page,
            now=lambda: self.now_s,
        )

    def after(self, seconds: float, text: str, ours: Ours | None = None) -> str | None:
        self.now_s += seconds
        self.page, self.ours = text, ours or Ours(0, [])
        return self.guard.look()


def test_slow_answers_of_live_users_stop_the_run() -> None:
    scene = Scene(live_ttft_p95_s=2.0)
    assert scene.guard.look() is None
    because = scene.after(1, page([3.0] * 6))
    assert because is not None
    assert "up to 5 s" in because
    assert "live_ttft_p95_s is 2" in because


def test_our_own_slow_answers_do_not() -> None:
    scene = Scene(live_ttft_p95_s=2.0)
    scene.guard.look()
    ours = Ours(6, [(100.5, 3.0)] * 6)
    assert scene.after(1, page([3.0] * 6 + [0.05] * 6), ours) is None


def test_what_was_answered_before_the_run_does_not_count() -> None:
    scene = Scene(live_ttft_p95_s=2.0)
    scene.after(0, page([4.0] * 50))
    assert scene.after(1, page([4.0] * 50 + [0.05] * 20)) is None


def test_a_restarted_server_counts_from_zero() -> None:
    scene = Scene(live_ttft_p95_s=2.0)
    scene.after(0, page([0.05] * 50))
    assert scene.after(1, page([4.0] * 9)) is not None


def test_a_queue_of_live_users_stops_the_run_and_our_own_does_not() -> None:
    scene = Scene(live_queue=3)
    assert scene.after(0, page([], running=8, waiting=8), Ours(16, [])) is None
    assert scene.after(1, page([], running=8, waiting=8), Ours(4, [])) is None
    assert scene.after(1, page([], running=8, waiting=8), Ours(4, [])) is not None


def test_a_page_that_cannot_be_read_stops_nothing_and_is_noted() -> None:
    scene = Scene(live_queue=0)

    def fail(url: str) -> str:
        raise TargetError(f"{url} cannot be reached")

    scene.guard.read = fail
    assert scene.guard.look() is None
    assert any("could not be watched" in note for note in scene.guard.notes)


def test_an_engine_without_that_histogram_is_noted() -> None:
    scene = Scene(engine="llama.cpp", live_ttft_p95_s=2.0)
    scene.page = "# no metrics\n"
    assert scene.guard.look() is None
    assert any("reports no time to first token" in note for note in scene.guard.notes)


def test_without_a_live_limit_nothing_is_watched() -> None:
    assert not Scene().guard.is_needed
    assert Scene(live_queue=1).guard.is_needed


def test_a_run_stops_for_live_users_keeps_what_it_has_and_says_why(tmp_path: Path) -> None:
    """End to end: a page on which users who are not ours wait, more than the limit allows."""
    folder = tmp_path / "e"
    prompts = tmp_path / "p.jsonl"
    prompts.write_text("".join(f'{{"prompt": "hello {n}"}}\n' for n in range(300)))
    models = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]}
    pages = {"/metrics": page([], running=1, waiting=40), "/v1/models": json.dumps(models)}
    answer = chat_stream(["a", "b"], first_ms=20, gap_ms=80)
    whole = http_reply(b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}')

    def script(seen: Seen) -> Script:
        return answer if seen.json.get("stream") else [(0.0, whole)]

    with FakeEngine(script, pages=pages, model="m") as fake:
        folder.mkdir()
        (folder / "engagement.yaml").write_text(
            "client: x\n"
            f"target: {{kind: endpoint, engine: vllm, url: {fake.url}, model: m}}\n"
            f"workloads: [{{name: load, kind: closed, prompts: {prompts}, concurrency: 2}}]\n"
            "limits: {stop_if: {live_queue: 3}}\n"
        )
        code, output = finish(start("measure", str(folder)), timeout_s=60)
    assert code == 4, output
    assert "sending stopped: about 38 live requests wait" in output
    (run_dir,) = (folder / "runs").iterdir()
    requests = read_requests(run_dir / "requests.parquet")
    by_status = Counter(r.status for r in requests)
    assert sum(by_status.values()) == 300
    assert by_status["ok"] > 0
    assert by_status["unsent"] > 200


def test_closed_loops_send_no_faster_than_the_limit(tmp_path: Path) -> None:
    with FakeEngine(chat_stream(["a", "b"])) as fake:
        config = load_config(tmp_path, fake.url, closed_schedule(12, 4), max_requests_per_s=10.0)
        run_load(config, lambda progress: None)
        arrived = sorted(served.seen.read_s for served in fake.served)
    journal = read_journal(Path(config.journal_path))
    intended = sorted(r.intended_s or 0.0 for r in journal.requests)
    assert all(b - a >= 0.0999 for a, b in pairwise(intended))
    assert arrived[-1] - arrived[0] >= 1.0
