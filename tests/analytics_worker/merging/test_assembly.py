"""Who is waited for: with a clock held by hand, and a model of sites that come and go."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from analytics_worker.merging.assembly import Assembly, Heard
from analytics_worker.merging.decisions import Decided, Left, Presence

GRAIN = 1000


@dataclass
class Scene:
    """A merge of some sites; ``now`` is in seconds, the frontiers in ms."""

    since: int = 0
    now: float = 0.0
    presence: Presence = field(default_factory=Presence)

    def __post_init__(self) -> None:
        self.assembly = Assembly(
            GRAIN, patience_ms=5000, since=self.since, after=self.since, monotonic=lambda: self.now
        )

    def at(self, now: float, promise: int, **frontiers: int) -> int:
        """Return the frontier once what is decided at a time is known."""
        self.now = now
        heard = {site: Heard(0, frontier) for site, frontier in frontiers.items()}
        decided = self.assembly.decide(heard, self.presence, promise, int(now * 1000))
        self.presence.learn(decided)
        return self.assembly.frontier(heard, self.presence, promise)


def test_all_are_waited_for_until_one_is_silent_for_too_long() -> None:
    scene = Scene()
    assert scene.at(1, 1000, a=1000, b=1000) == 1000
    assert scene.at(2, 2000, a=2000, b=1000) == 1000
    assert scene.at(5.9, 2000, a=5000, b=1000) == 1000
    assert scene.at(6.1, 2000, a=6000, b=1000) == 6000
    assert scene.presence.missing(1000) == ()
    assert scene.presence.missing(1001) == ("b",)


def test_one_that_is_back_is_waited_for_from_a_tick_that_nobody_has_closed() -> None:
    scene = Scene()
    scene.at(1, 1000, a=1000, b=1000)
    scene.at(2, 2000, a=2000, b=1000)
    scene.at(10, 2000, a=10_000, b=1000)
    assert scene.at(11, 11_000, a=11_000, b=11_000) == 11_000
    gap = scene.presence.gaps[0]
    assert (gap.after, gap.until) == (1000, 13_000)
    # Up to there it is not waited for; beyond, it is.
    assert scene.at(12, 12_000, a=20_000, b=11_000) == 13_000
    assert scene.at(13, 14_000, a=20_000, b=12_000) == 12_000


def test_the_furthest_is_never_left_out_and_nobody_waits_for_ever() -> None:
    scene = Scene()
    assert scene.at(0, 1000, a=-1, b=-1) == -1
    assert scene.at(100, 1000, a=-1, b=-1) == -1
    assert scene.at(101, 1000, a=2000, b=-1) == -1
    assert scene.at(115, 1000, a=15_000, b=-1) == -1
    assert scene.at(117, 1000, a=16_000, b=-1) == 16_000


def test_one_that_lags_for_long_is_left_although_it_moves() -> None:
    scene = Scene()
    scene.at(0, 1000, a=1000, b=0)
    for second in range(1, 20):
        assert scene.at(second, 1000, a=100_000 + second * 1000, b=second) < 1000
    assert scene.at(22, 1000, a=130_000, b=22) >= 130_000


def test_one_that_is_a_little_later_each_time_is_neither_left_nor_kept_out() -> None:
    scene = Scene()
    for second in range(1, 60):
        scene.at(second, second * 1000, a=second * 1000, b=(second - 1) * 1000)
        scene.at(second + 0.5, second * 1000, a=second * 1000, b=second * 1000)
    assert scene.presence.gaps == []
    scene.at(80, 80_000, a=80_000, b=59_000)
    assert scene.presence.open_gap("b")
    scene.at(81, 81_000, a=81_000, b=80_000)
    assert not scene.presence.open_gap("b")


def test_a_watch_that_begins_late_does_not_begin_to_count_anew() -> None:
    scene = Scene(since=100_000)
    assert scene.at(0, 105_000, a=105_000, b=100_000) == 100_000
    # The other one has been silent for 9 s when the watch begins: that is over its patience.
    scene = Scene(since=100_000)
    assert scene.at(0, 105_000, a=110_000, b=100_000) == 110_000


def test_a_watch_that_begins_in_a_gap_does_not_wait_for_what_is_told_already() -> None:
    scene = Scene(since=100_000)
    scene.presence.learn([Decided(100_000, "b", Left())])
    assert scene.at(0, 100_000, a=105_000, b=-1) == 105_000
    # Nor when it is for the watch to find out, by nothing but silence.
    scene = Scene(since=100_000)
    assert scene.at(0, 100_000, a=105_000, b=-1) == -1
    assert scene.at(16, 100_000, a=105_000, b=-1) == 105_000
    assert scene.presence.missing(100_001) == ("b",)


_steps = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 4)), max_size=40)


@given(_steps)
def test_a_tick_is_closed_without_a_site_only_if_it_is_said_to_be_missing(
    steps: list[tuple[bool, bool, int]],
) -> None:
    scene, promise, frontiers = Scene(), GRAIN, {"a": 0, "b": 0}
    now = 0.0
    for a_moves, b_moves, seconds in steps:
        now += seconds
        for site, moves in (("a", a_moves), ("b", b_moves)):
            if moves:
                frontiers[site] = int(now * 1000) // GRAIN * GRAIN
        reached = scene.at(now, promise, **frontiers)
        while reached >= promise:
            without = {site for site, frontier in frontiers.items() if frontier < promise}
            assert without <= set(scene.presence.missing(promise))
            promise = scene.assembly.next_promise(min(reached, promise), promise)
            reached = scene.at(now, promise, **frontiers)
