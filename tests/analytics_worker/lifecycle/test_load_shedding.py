"""The order in which fragments are shed and resumed; the test sets the clock."""

from analytics_worker.lifecycle.load_shedding import FragmentLoad, LoadShedder

LOW, MIDDLE, HIGH = "low", "middle", "high"
SALIENCE = {LOW: 0, MIDDLE: 3, HIGH: 5}


SLOW, ROOM = 0.3, 2.0
"""The paces of a fragment with too little capacity, and of a fragment with enough capacity.

Unit: seconds of event time per second.
"""


class World:
    """Three fragments on a worker with a simulated clock."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.names = names or (LOW, MIDDLE, HIGH)
        self.shedding = LoadShedder(lambda: self.now)
        self.lag = dict.fromkeys(SALIENCE, 0.0)
        self.starting: set[str] = set()

    def go(self, seconds: int, pace: dict[str, float] | None = None) -> list[str]:
        """Advance the clock by a number of seconds; return the fragments that are shed afterwards.

        ``pace``: fragment -> seconds of event time that the fragment processes per second (default:
        ``ROOM``).
        """
        for _ in range(seconds):
            self.now += 1
            for name in self.names:
                speed = 0.0 if name in self.shed_names else (pace or {}).get(name, ROOM)
                self.lag[name] = max(0.0, self.lag[name] + 1 - speed)
            self.shedding.update({name: self.load(name) for name in self.names})
        return self.shed_names

    def load(self, name: str) -> FragmentLoad:
        """Return the current load of a fragment."""
        lag = self.lag[name]
        done = round((self.now - lag) * 1000)
        is_starting = name in self.starting
        return FragmentLoad(SALIENCE[name], done, round(lag * 1000), is_starting=is_starting)

    @property
    def shed_names(self) -> list[str]:
        """The fragments that are shed, the lowest salience first."""
        return [name for name in self.names if SALIENCE[name] < self.shedding.floor]


def test_lowest_salience_is_shed_first_and_the_highest_never() -> None:
    world = World()
    assert world.go(60) == []
    assert world.go(12, {LOW: SLOW}) == [LOW]
    assert world.go(8, {HIGH: SLOW}) == [LOW]
    assert world.go(12, {HIGH: SLOW}) == [LOW, MIDDLE]
    assert world.go(300, {HIGH: SLOW}) == [LOW, MIDDLE]
    assert world.shedding.lagging_s(HIGH) is not None


def test_start_of_a_query_sheds_nothing_but_a_lag_after_it_does() -> None:
    world = World()
    world.starting = {HIGH}
    assert world.go(40, {LOW: SLOW, HIGH: 0.0}) == []
    world.starting = set()
    assert world.go(15, {LOW: SLOW, HIGH: SLOW}) == []
    assert world.go(8, {LOW: SLOW, HIGH: SLOW}) == [LOW]


def test_start_that_does_not_end_delays_shedding_for_a_minute_only() -> None:
    world = World()
    world.starting = {MIDDLE}
    assert world.go(60, {LOW: SLOW}) == []
    assert world.go(40, {LOW: SLOW}) == [LOW]


def test_fragments_of_the_only_salience_are_not_shed() -> None:
    world = World(LOW)
    assert world.go(120, {LOW: SLOW}) == []
    lagging_s = world.shedding.lagging_s(LOW)
    assert lagging_s is not None
    assert 100 < lagging_s < 120


def test_query_that_catches_up_is_not_shed() -> None:
    world = World()
    world.lag = {LOW: 600.0, MIDDLE: 0.0, HIGH: 90.0}  # as after a restart
    assert world.go(100, {LOW: 2.0, HIGH: 1.5}) == []
    # Nor is one whose batches are long: it is as far in steps.
    steps = LoadShedder(lambda: world.now)
    for second in range(60):
        world.now += 1
        done = second // 10 * 40
        lag = max(0, 300 + second - done)
        steps.update({LOW: FragmentLoad(0, done * 1000, lag * 1000), HIGH: FragmentLoad(5)})
    assert steps.floor == 0


def test_query_that_is_done_by_its_next_tick_does_not_lag() -> None:
    world = World(LOW, HIGH)

    def go(seconds: int, batch_s: int) -> list[str]:
        # Results are due each minute, and there after a batch of so many seconds.
        for _ in range(seconds):
            world.now += 1
            minutes, since = divmod(round(world.now), 60)
            is_done = since >= batch_s
            done = minutes - (not is_done)
            high = FragmentLoad(5, done * 60_000, 0 if is_done else since * 1000, grain_ms=60_000)
            world.shedding.update({LOW: FragmentLoad(0, round(world.now * 1000)), HIGH: high})
        return world.shed_names

    assert go(3600, batch_s=22) == []
    assert go(600, batch_s=59) == []
    # One that is not even done then is.
    for second in range(200):
        world.now += 1
        late = FragmentLoad(5, 0, (60 + second) * 1000, grain_ms=60_000)
        world.shedding.update({LOW: FragmentLoad(0, round(world.now * 1000)), HIGH: late})
    assert world.shed_names == [LOW]


def test_shed_salience_is_resumed_highest_first_and_later_after_each_failure() -> None:
    world = World()
    world.go(12, {LOW: SLOW})
    world.go(20, {MIDDLE: SLOW})
    assert world.shed_names == [LOW, MIDDLE]
    assert world.go(30) == [LOW]
    # First it is to catch up.
    assert world.go(30) == [LOW]
    assert world.go(60) == []
    # It comes back with trouble: it rests for twice as long, and again.
    tries = []
    for _ in range(3):
        world.go(20, {LOW: SLOW})
        assert world.shed_names == [LOW]
        before = world.now
        while world.shed_names and world.now < before + 1000:
            world.go(1)
        tries.append(world.now - before)
    assert tries[0] < tries[1] < tries[2]


def test_shedding_ends_when_the_urgent_fragments_are_gone() -> None:
    world = World()
    world.go(12, {LOW: SLOW})
    world.go(20, {HIGH: SLOW})
    assert world.shed_names == [LOW, MIDDLE]
    world.names = (LOW, MIDDLE)
    assert world.go(1) == [LOW]
    world.names = (LOW,)
    assert world.go(1) == []
