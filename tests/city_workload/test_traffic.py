"""Traffic of the city: equal for equal seeds, at the requested rate, and with plausible values."""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from city_workload.bus import MAX_DELAY_S, SEATS, new_bus
from city_workload.streets import BLOCK_M, NORTH_BLOCKS, Streets
from city_workload.traffic import POINTS_PER_REPORT, City, TickBatch, batches
from mistbow.client import Point
from mistbow.errors import InvalidRequestError

START = 1_795_262_400_000

cities = st.builds(
    City,
    regions=st.integers(1, 4).map(lambda count: tuple(f"r{n}" for n in range(count))),
    vehicles=st.integers(1, 40),
    rate=st.floats(1, 2000),
    seed=st.integers(0, 2**32),
    tick_ms=st.integers(50, 2000),
)


def ticks(city: City, count: int, start: int = START) -> list[TickBatch]:
    return list(islice(batches(city, start), count))


def points(batch_list: Sequence[TickBatch]) -> list[Point]:
    return [point for batch in batch_list for point in batch.points]


@given(cities)
def test_batches_are_equal_for_equal_seeds(city: City) -> None:
    assert ticks(city, 5) == ticks(city, 5)


def test_batches_differ_for_different_seeds() -> None:
    assert ticks(City(seed=1), 3) != ticks(City(seed=2), 3)


@given(cities)
def test_batches_do_not_depend_on_start_time(city: City) -> None:
    early, late = points(ticks(city, 3)), points(ticks(city, 3, START + 12_345))
    assert [(each.ts - START, each.entity, each.value) for each in early] == [
        (each.ts - START - 12_345, each.entity, each.value) for each in late
    ]


@given(cities, st.integers(1, 20))
def test_batches_have_the_rate_of_the_city(city: City, count: int) -> None:
    expected = city.rate * count * city.tick_ms / 1000
    assert abs(len(points(ticks(city, count))) - expected) <= 2 * POINTS_PER_REPORT


@given(cities)
def test_batches_are_adjacent_and_contain_their_times(city: City) -> None:
    sent_batches = ticks(city, 5)
    for batch, following in pairwise(sent_batches):
        assert batch.end == following.start
    for batch in sent_batches:
        assert all(batch.start <= point.ts < batch.end for point in batch.points)


@given(cities)
def test_values_are_within_their_ranges(city: City) -> None:
    ranges = {
        "latitude": (35.1, 35.2),
        "longitude": (33.3, 33.4),
        "passengers": (0, SEATS),
        "fare": (0, 10_000),
        "delay": (0, MAX_DELAY_S),
    }
    for point in points(ticks(city, 20)):
        low, high = ranges[point.metric]
        assert low <= point.value <= high
        assert point.labels is not None
        assert point.labels["region"] in city.regions


@given(st.integers(0, 2**32), st.lists(st.floats(0.1, 500), max_size=30))
def test_bus_stays_on_streets_at_any_time(seed: int, pauses: list[float]) -> None:
    random_source = random.Random(seed)  # noqa: S311
    streets = Streets(("a", "b"))
    bus = new_bus("line-1", streets, random_source)
    for seconds in pauses:
        before = bus.position_m
        bus.drive(seconds, streets, random_source)
        east, north = bus.position_m
        assert east % BLOCK_M == 0 or north % BLOCK_M == 0
        assert 0 <= east <= streets.east_blocks * BLOCK_M
        assert 0 <= north <= NORTH_BLOCKS * BLOCK_M
        assert abs(east - before[0]) + abs(north - before[1]) <= 14 * seconds + 1e-6
        assert 0 <= bus.passengers <= SEATS


def test_buses_change_region_and_all_metrics_over_an_hour() -> None:
    city = City(vehicles=20, rate=10, tick_ms=60_000)
    regions = defaultdict(set)
    values = defaultdict(set)
    for point in points(ticks(city, 60)):
        assert point.labels is not None
        regions[point.entity].add(point.labels["region"])
        values[point.metric].add(point.value)
    assert sum(len(seen) > 1 for seen in regions.values()) > 10
    assert all(len(seen) > 10 for seen in values.values())
    assert {len(regions), len(values)} == {20, POINTS_PER_REPORT}


@pytest.mark.parametrize(
    "wrong", [{"regions": ()}, {"regions": ("a", "a")}, {"vehicles": 0}, {"rate": 0}]
)
def test_city_rejects_empty_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError):
        City(**wrong)  # type: ignore[arg-type]
