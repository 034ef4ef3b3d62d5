"""What is shed, in which order, and when it is tried again, by a clock that the test sets."""

from analytics_worker.shedding import Load, Shedding

LOW, MIDDLE, HIGH = "low", "middle", "high"
SALIENCE = {LOW: 0, MIDDLE: 3, HIGH: 5}


SLOW, ROOM = 0.3, 2.0
"""The pace of what gets too little, and of what gets what it needs."""


class World:
    """Three fragments on a worker; ``pace`` says how fast each can go on, 1 is as time does."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.names = names or (LOW, MIDDLE, HIGH)
        self.shedding = Shedding(lambda: self.now)
        self.lag = dict.fromkeys(SALIENCE, 0.0)

    def go(self, seconds: int, pace: dict[str, float] | None = None) -> list[str]:
        """Let time pass; return what rests in the end."""
        for _ in range(seconds):
            self.now += 1
            for name in self.names:
                speed = 0.0 if name in self.resting else (pace or {}).get(name, ROOM)
                self.lag[name] = max(0.0, self.lag[name] + 1 - speed)
            self.shedding.look({name: self.load(name) for name in self.names})
        return self.resting

    def load(self, name: str) -> Load:
        """Return how far a fragment is now."""
        lag = self.lag[name]
        return Load(SALIENCE[name], round((self.now - lag) * 1000), round(lag * 1000))

    @property
    def resting(self) -> list[str]:
        """What rests, the lowest first."""
        return [name for name in self.names if SALIENCE[name] < self.shedding.floor]


def test_the_lowest_rests_first_then_the_next_and_the_highest_never() -> None:
    world = World()
    assert world.go(60) == []
    assert world.go(12, {LOW: SLOW}) == [LOW]
    assert world.go(8, {HIGH: SLOW}) == [LOW]
    assert world.go(12, {HIGH: SLOW}) == [LOW, MIDDLE]
    assert world.go(300, {HIGH: SLOW}) == [LOW, MIDDLE]
    assert world.shedding.lags_for(HIGH) is not None


def test_one_salience_alone_only_lags() -> None:
    world = World(LOW)
    assert world.go(120, {LOW: SLOW}) == []
    lags_for = world.shedding.lags_for(LOW)
    assert lags_for is not None
    assert 100 < lags_for < 120


def test_who_catches_up_is_not_in_trouble() -> None:
    world = World()
    world.lag = {LOW: 600.0, MIDDLE: 0.0, HIGH: 90.0}  # as after a restart
    assert world.go(100, {LOW: 2.0, HIGH: 1.5}) == []
    # Nor is one whose batches are long: it is as far in steps.
    steps = Shedding(lambda: world.now)
    for second in range(60):
        world.now += 1
        done = second // 10 * 40
        lag = max(0, 300 + second - done)
        steps.look({LOW: Load(0, done * 1000, lag * 1000), HIGH: Load(5)})
    assert steps.floor == 0


def test_who_has_done_by_the_next_tick_keeps_up_however_long_it_takes() -> None:
    world = World(LOW, HIGH)

    def go(seconds: int, batch_s: int) -> list[str]:
        # Results are due each minute, and there after a batch of so many seconds.
        for _ in range(seconds):
            world.now += 1
            minutes, since = divmod(round(world.now), 60)
            is_done = since >= batch_s
            done = minutes - (not is_done)
            high = Load(5, done * 60_000, 0 if is_done else since * 1000, grain_ms=60_000)
            world.shedding.look({LOW: Load(0, round(world.now * 1000)), HIGH: high})
        return world.resting

    assert go(3600, batch_s=22) == []
    assert go(600, batch_s=59) == []
    # One that is not even done then is.
    for second in range(200):
        world.now += 1
        late = Load(5, 0, (60 + second) * 1000, grain_ms=60_000)
        world.shedding.look({LOW: Load(0, round(world.now * 1000)), HIGH: late})
    assert world.resting == [LOW]


def test_what_rests_is_tried_again_the_highest_first_and_less_often_if_it_is_too_much() -> None:
    world = World()
    world.go(12, {LOW: SLOW})
    world.go(20, {MIDDLE: SLOW})
    assert world.resting == [LOW, MIDDLE]
    assert world.go(30) == [LOW]
    # First it is to catch up.
    assert world.go(30) == [LOW]
    assert world.go(60) == []
    # It comes back with trouble: it rests for twice as long, and again.
    tries = []
    for _ in range(3):
        world.go(20, {LOW: SLOW})
        assert world.resting == [LOW]
        before = world.now
        while world.resting and world.now < before + 1000:
            world.go(1)
        tries.append(world.now - before)
    assert tries[0] < tries[1] < tries[2]


def test_nothing_rests_for_what_is_gone() -> None:
    world = World()
    world.go(12, {LOW: SLOW})
    world.go(20, {HIGH: SLOW})
    assert world.resting == [LOW, MIDDLE]
    world.names = (LOW, MIDDLE)
    assert world.go(1) == [LOW]
    world.names = (LOW,)
    assert world.go(1) == []
