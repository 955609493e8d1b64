"""The live users' queue and latency stop a run; our own requests do not."""

from collections.abc import Sequence

from teardown.errors import TargetError
from teardown.live import LiveGuard, Ours
from teardown.settings import StopIf

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
