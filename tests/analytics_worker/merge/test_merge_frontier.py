"""The sites that a merge waits for, with simulated sites and a clock that the test sets."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics_worker.merge.decisions import Left, Presence, SiteDecision
from analytics_worker.merge.merge_frontier import MergeFrontier, SiteProgress

GRAIN = 1000

Frontier = Callable[[int], int]
"""The frontier (ms) of a site, as a function of the time (ms) of the clock."""


@dataclass
class MergeScene:
    """A merge of several sites; ``now``: the time (s).

    ``promise``: the next tick (ms) to close in ``run``. ``decisions``: the number of decisions.
    """

    since: int = 0
    resumed: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    now: float = 0.0
    presence: Presence = field(default_factory=Presence)
    grain: int = GRAIN
    promise: int = 0
    decisions: int = 0

    def __post_init__(self) -> None:
        self.merge = MergeFrontier(
            self.grain,
            patience_ms=5000,
            since=self.since,
            after=self.since,
            monotonic=lambda: self.now,
            resumed=self.resumed,
            unreachable=self.unreachable,
        )

    def at(self, now: float, promise: int, **frontiers: int) -> int:
        """Set the time (s), and let the merge decide; return the frontier (ms) of the merge.

        ``promise``: the promise of the query (ms); ``frontiers``: site -> the frontier (ms) of its
        panes.
        """
        self.now = now
        progress = {site: SiteProgress(0, frontier) for site, frontier in frontiers.items()}
        decided = self.merge.decide(progress, self.presence, promise, int(now * 1000))
        self.presence.apply(decided)
        self.decisions += len(decided)
        return self.merge.frontier(progress, self.presence, promise)

    def run(self, start: int, end: int, lateness: int = 0, **sites: Frontier) -> int:
        """Let the merge decide every 500 ms from ``start`` to before ``end`` (ms); return ``end``.

        ``lateness``: how far (ms) event time is behind the clock; the frontiers of the sites do not
        include it.
        """
        for now in range(start, end, 500):
            frontiers = {site: frontier(now) - lateness for site, frontier in sites.items()}
            reached = self.at(now / 1000, self.promise, **frontiers)
            if reached >= self.promise:
                self.promise = self.merge.next_promise(self.merge.reached(reached, self.promise))
        return end

    def run_until_joined(self, start: int, lateness: int = 0, **sites: Frontier) -> int:
        """Let the merge decide until no site is missing; return the time (ms) of the next step."""
        now = start
        while self.presence.open_gaps():
            assert now < start + 600_000
            now = self.run(now, now + 500, lateness, **sites)
        return now


def each(interval: int, lag: int = 0) -> Frontier:
    """Return the frontier of a site that moves once in an interval (ms), ``lag`` (ms) late."""
    return lambda now: (now - lag) // interval * interval


def stopped(frontier: int) -> Frontier:
    """Return the frontier (ms) of a site that does not move."""
    return lambda now: frontier


def test_silent_site_leaves_after_the_patience() -> None:
    scene = MergeScene()
    assert scene.at(1, 1000, a=1000, b=1000) == 1000
    assert scene.at(2, 2000, a=2000, b=1000) == 1000
    assert scene.at(5.9, 2000, a=5000, b=1000) == 1000
    assert scene.at(6.1, 2000, a=6000, b=1000) == 6000
    assert scene.presence.missing(1000) == ()
    assert scene.presence.missing(1001) == ("b",)


def test_site_whose_worker_is_dead_leaves_sooner_unless_another_worker_has_written_its_panes() -> (
    None
):
    for moved, leaves_after in ((False, 0.5), (True, 5.0)):
        scene = MergeScene()
        scene.at(1, 1000, a=1000, b=1000)
        scene.merge.note_orphan("b", 1000)
        b = 2000 if moved else 1000
        scene.at(1.2, 2000, a=2000, b=b)
        since, promise = (1.2, 3000) if moved else (1, 2000)
        assert scene.at(since + leaves_after - 0.1, promise, a=5000, b=b) == b
        assert scene.at(since + leaves_after + 0.1, promise, a=8000, b=b) == 8000
        assert scene.presence.gaps[0].after == b


def test_new_site_whose_worker_is_dead_has_the_usual_time_to_start() -> None:
    scene = MergeScene()
    scene.at(1, 1000, a=1000, b=-1)
    scene.merge.note_orphan("b", -1)
    assert scene.at(15, 2000, a=15_000, b=-1) == -1
    assert scene.at(17, 2000, a=17_000, b=-1) == 17_000


def test_time_without_observations_is_no_silence() -> None:
    scene = MergeScene()
    scene.at(1, 1000, a=1000, b=1000)
    scene.at(5.9, 2000, a=5000, b=1000)
    scene.now = 14.9
    scene.merge.exclude(9)
    assert scene.at(14.9, 2000, a=5000, b=1000) == 1000
    assert scene.at(15.1, 2000, a=15_000, b=1000) == 15_000


def test_joining_site_is_waited_for_from_a_tick_that_is_open_everywhere() -> None:
    scene = MergeScene()
    scene.at(1, 1000, a=1000, b=1000)
    scene.at(2, 2000, a=2000, b=1000)
    scene.at(10, 2000, a=10_000, b=1000)
    assert scene.at(11, 11_000, a=11_000, b=11_000) == 11_000
    gap = scene.presence.gaps[0]
    assert (gap.after, gap.until) == (1000, 13_000)
    # Up to there it is not waited for; beyond, it is.
    assert scene.at(12, 12_000, a=20_000, b=11_000) == 13_000
    assert scene.at(13, 14_000, a=20_000, b=12_000) == 12_000


def test_furthest_site_never_leaves_and_a_site_that_never_started_does() -> None:
    scene = MergeScene()
    assert scene.at(0, 1000, a=-1, b=-1) == -1
    assert scene.at(100, 1000, a=-1, b=-1) == -1
    assert scene.at(101, 1000, a=2000, b=-1) == -1
    assert scene.at(115, 1000, a=15_000, b=-1) == -1
    assert scene.at(117, 1000, a=16_000, b=-1) == 16_000


def test_site_that_lags_for_long_leaves_although_it_moves() -> None:
    scene = MergeScene()
    scene.at(0, 1000, a=1000, b=0)
    for second in range(1, 20):
        assert scene.at(second, 1000, a=100_000 + second * 1000, b=second) < 1000
    assert scene.at(22, 1000, a=130_000, b=22) >= 130_000


def test_site_that_is_always_a_little_late_stays_present() -> None:
    scene = MergeScene()
    for second in range(1, 60):
        scene.at(second, second * 1000, a=second * 1000, b=(second - 1) * 1000)
        scene.at(second + 0.5, second * 1000, a=second * 1000, b=second * 1000)
    assert scene.presence.gaps == []
    scene.at(80, 80_000, a=80_000, b=59_000)
    assert scene.presence.open_gap("b")
    scene.at(81, 81_000, a=81_000, b=80_000)
    assert not scene.presence.open_gap("b")


@given(lag=st.integers(0, 5999), cut_s=st.integers(1, 60))
def test_site_with_a_steady_lag_joins_again_after_a_cut(lag: int, cut_s: int) -> None:
    scene = MergeScene()
    for second in range(10, 30):
        now = second * 1000
        scene.at(second, now, a=now, b=now - lag)
    assert scene.presence.gaps == []
    for second in range(30, 30 + cut_s):
        now = second * 1000
        scene.at(second, now, a=now, b=29_000 - lag)
    for second in range(30 + cut_s, 60 + cut_s):
        now = second * 1000
        scene.at(second, now, a=now, b=now - lag)
    assert scene.presence.open_gaps() == []


def test_site_that_has_just_left_joins_only_once_it_moves_steadily() -> None:
    scene = MergeScene()
    scene.at(10, 10_000, a=10_000, b=10_000)
    scene.at(15.5, 11_000, a=15_000, b=10_000)
    assert scene.presence.open_gap("b")
    scene.at(15.9, 15_000, a=15_000, b=10_000)
    assert scene.presence.open_gap("b")
    for second in range(16, 22):
        now = second * 1000
        scene.at(second, now, a=now, b=now - 4000)
        assert scene.presence.open_gap("b")
    scene.at(22, 22_000, a=22_000, b=18_000)
    assert not scene.presence.open_gap("b")


def test_site_that_moves_more_seldom_than_the_patience_leaves_once() -> None:
    scene = MergeScene()
    for now in range(10_000, 610_000, 500):
        scene.at(now / 1000, now, a=now, b=now // 6000 * 6000 - 2000)
    assert len(scene.presence.gaps) <= 1


LATENESS = [
    pytest.param(0, id="on_time"),
    pytest.param(120_000, id="two_minutes_late"),
    pytest.param(700_000, id="twelve_minutes_late"),
]
FLAPPING = [
    pytest.param(GRAIN, each(500), each(6000), 70, id="catches_up"),
    pytest.param(GRAIN, each(1000, lag=1000), each(12_000), 70, id="leads"),
    pytest.param(60_000, each(60_000), each(60_000, lag=10_000), 20, id="every_minute"),
]


@pytest.mark.parametrize("lateness", LATENESS)
@pytest.mark.parametrize(("grain", "steady", "flapping", "max_decisions"), FLAPPING)
def test_site_that_moves_more_seldom_than_the_patience_joins_ever_more_seldom(
    grain: int, steady: Frontier, flapping: Frontier, max_decisions: int, lateness: int
) -> None:
    scene = MergeScene(grain=grain)
    scene.run(1_200_000, 3_000_000, lateness, a=steady, b=flapping)
    assert scene.decisions <= max_decisions
    absences = [gap.joined_at - gap.after for gap in scene.presence.gaps if gap.joined_at]
    assert max(absences) <= max(60_000, 10 * grain) + max(12_000, grain)
    assert len(absences) > 2, "results include its points only after it has joined"


@pytest.mark.parametrize("lateness", LATENESS)
@pytest.mark.parametrize(("grain", "steady", "flapping", "max_decisions"), FLAPPING)
def test_site_with_short_stays_joins_as_soon_as_it_moves_steadily(
    grain: int, steady: Frontier, flapping: Frontier, max_decisions: int, lateness: int
) -> None:
    scene = MergeScene(grain=grain)
    now = scene.run(1_200_000, 1_800_000, lateness, a=steady, b=flapping)
    while not scene.presence.open_gap("b"):
        now = scene.run(now, now + 500, lateness, a=steady, b=flapping)
    healthy = each(grain, lag=500)
    joined_after = scene.run_until_joined(now, lateness, a=steady, b=healthy) - now
    # A move, then the patience, then the next move.
    assert joined_after <= grain + max(6000, grain)


@pytest.mark.parametrize("lateness", LATENESS)
@pytest.mark.parametrize("lag", [0, 900])
def test_site_joins_at_once_after_each_outage_that_follows_a_stay_longer_than_the_patience(
    lag: int, lateness: int
) -> None:
    scene = MergeScene()
    healthy = each(500, lag=lag)
    now = 1_200_000
    for _ in range(8):
        now = scene.run(now, now + 10_000, lateness, a=each(500), b=healthy)
        now = scene.run(now, now + 20_000, lateness, a=each(500), b=stopped(healthy(now)))
        assert scene.presence.open_gap("b")
        joined_at = scene.run_until_joined(now, lateness, a=each(500), b=healthy)
        assert joined_at - now <= 1000
        now = joined_at


def test_site_with_short_stays_joins_at_once_after_an_outage_that_follows_a_long_stay() -> None:
    scene = MergeScene()
    now = scene.run(10_000, 310_000, a=each(500), b=each(6000))
    now = scene.run(now, now + 30_000, a=each(500), b=each(500))
    assert not scene.presence.open_gap("b")
    now = scene.run(now, now + 7000, a=each(500), b=stopped(now))
    assert scene.presence.open_gap("b")
    assert scene.run_until_joined(now, a=each(500), b=each(500)) - now <= 500


def test_site_that_lags_little_joins_only_once_it_moves() -> None:
    scene = MergeScene()
    scene.at(10, 11_000, a=10_900, b=10_200)
    for second in range(16, 20):
        scene.at(second, 11_000, a=10_900, b=10_200)
        assert scene.presence.open_gap("b")
    scene.at(20, 20_000, a=20_000, b=20_000)
    assert not scene.presence.open_gap("b")
    assert scene.decisions == 2


def test_merge_that_starts_late_counts_the_former_silence() -> None:
    scene = MergeScene(since=100_000)
    assert scene.at(0, 105_000, a=105_000, b=100_000) == 100_000
    # The other one has been silent for 9 s when the watch begins: that is over its patience.
    scene = MergeScene(since=100_000)
    assert scene.at(0, 105_000, a=110_000, b=100_000) == 110_000


def test_merge_that_starts_in_a_gap_does_not_wait_for_stored_ticks() -> None:
    scene = MergeScene(since=100_000)
    scene.presence.apply([SiteDecision(100_000, "b", Left())])
    assert scene.at(0, 100_000, a=105_000, b=-1) == 105_000
    # Nor when it is for the watch to find out, by nothing but silence.
    scene = MergeScene(since=100_000)
    assert scene.at(0, 100_000, a=105_000, b=-1) == -1
    assert scene.at(16, 100_000, a=105_000, b=-1) == 105_000
    assert scene.presence.missing(100_001) == ("b",)


def test_site_that_an_earlier_query_has_read_has_no_time_to_start() -> None:
    scene = MergeScene(since=100_000, resumed=("a", "b"))
    assert scene.at(100, 100_000, a=105_000, b=-1) == -1
    assert scene.at(106, 100_000, a=111_000, b=-1) == 111_000


def test_site_that_was_lost_before_the_start_leaves_after_the_rest_of_the_patience() -> None:
    scene = MergeScene(since=100_000, resumed=("a", "b"), unreachable=("b",))
    assert scene.at(103, 100_000, a=102_000, b=-1) == -1
    assert scene.at(106.5, 100_000, a=105_000, b=-1) == 105_000
    # A site that was never read may only be starting.
    scene = MergeScene(since=100_000, unreachable=("b",))
    assert scene.at(110, 100_000, a=109_000, b=-1) == -1


_steps = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 4)), max_size=40)


@given(_steps)
def test_tick_is_closed_without_a_site_only_if_it_is_missing_by_decision(
    steps: list[tuple[bool, bool, int]],
) -> None:
    scene, promise, frontiers = MergeScene(), GRAIN, {"a": 0, "b": 0}
    now = 0.0
    for a_moves, b_moves, seconds in steps:
        now += seconds
        for site, moves in (("a", a_moves), ("b", b_moves)):
            if moves:
                frontiers[site] = int(now * 1000) // GRAIN * GRAIN
        reached = scene.at(now, promise, **frontiers)
        while reached >= promise:
            closed = scene.merge.reached(reached, promise)
            for tick in range(promise, closed + 1, GRAIN):
                without = {site for site, frontier in frontiers.items() if frontier < tick}
                assert without <= set(scene.presence.missing(tick))
            promise = scene.merge.next_promise(closed)
            reached = scene.at(now, promise, **frontiers)
