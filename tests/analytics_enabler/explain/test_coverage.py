"""Windows that began before the first points: which are searched, and how often."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from analytics.insight_models import WindowCoverage
from analytics.plan.ticks import DAY_MS
from analytics_enabler.catalogue import SeriesIndex, SeriesLocation
from analytics_enabler.explain.coverage import MAX_SEARCHES, SITES_AT_A_TIME, CoverageReader
from analytics_enabler.semantics import Definition, check
from mistbow.errors import UnavailableError

MINUTE = 60_000
NOW = 1_000_000 * MINUTE
SEARCHES = 3
"""The searches for a window that is not full: at its start, of earlier points, of its points."""


class Agent:
    """An agent whose points of each metric begin at a time; it counts its answers."""

    def __init__(self, begins: int) -> None:
        self.begins = begins
        self.answers = self.at_once = self.most_at_once = 0

    def at(self, _site: str) -> "Agent":
        return self

    async def sql(self, _query: str, parameters: Sequence[Any]) -> pa.Table:
        _, after, until = parameters
        first = max(self.begins, after + 1)
        self.answers += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return pa.table({"first": pa.array([first if first <= until else None], pa.int64())})


class Catalogue:
    """The series of a metric at one site."""

    known_series = SeriesIndex([SeriesLocation("edge", "delay", "bus-1")])


def definition(text: str) -> Definition:
    (found,) = check(f"a = COMPUTE {text} EVERY 10 SECONDS").definitions
    return found


def reader(agent: Agent) -> CoverageReader:
    return CoverageReader(agent, Catalogue(), lambda: NOW)  # type: ignore[arg-type]


def window(begins: int, points: int, ends: int = NOW) -> WindowCoverage:
    return WindowCoverage(metric="delay", begins_at=begins, points_from=points, ends_at=ends)


@pytest.mark.parametrize(
    ("text", "minutes", "found"),
    [
        ("AVG(delay, 10 MINUTES)", 4, window(NOW - 10 * MINUTE, NOW - 4 * MINUTE)),
        ("AVG(delay, 10 MINUTES)", 10, None),
        ("AVG(delay, 10 MINUTES)", 9.8, None),  # almost the whole window
        ("AVG(delay, 10 MINUTES)", 5000, None),
        ("AVG(delay, 1 MINUTE)", 4, None),
        (
            "AVG(delay, 1 MINUTE) - AVG(delay, 2 MINUTES, 10 MINUTES)",
            *(11, window(NOW - 12 * MINUTE, NOW - 11 * MINUTE, NOW - 10 * MINUTE)),
        ),
        ("AVG(delay, 1 MINUTE, 10 MINUTES)", 3, window(*[NOW - n * MINUTE for n in (11, 10, 10)])),
        ("delay BY entityID", 0.1, None),
        ("RUNNING_MAX(delay)", 0.1, None),
        ("AVG(other, 10 MINUTES)", 4, None),
    ],
)
async def test_window_that_began_before_the_points_is_found(
    text: str, minutes: float, found: WindowCoverage | None
) -> None:
    coverage = reader(Agent(NOW - round(minutes * MINUTE)))
    assert await coverage.coverage(definition(text), NOW) == found


def test_share_of_a_window_is_what_its_points_cover() -> None:
    assert window(NOW - 10 * MINUTE, NOW - 4 * MINUTE).share == 0.4


async def test_clients_that_show_the_same_insight_share_one_search() -> None:
    agent = Agent(NOW - 4 * MINUTE)
    coverage, insight = reader(agent), definition("AVG(delay, 10 MINUTES)")
    found = await asyncio.gather(*(coverage.at_latest_tick(insight) for _ in range(49)))
    assert set(map(str, found)) == {str(window(NOW - 10 * MINUTE, NOW - 4 * MINUTE))}
    assert await coverage.at_latest_tick(insight) == found[0]
    assert agent.answers == SEARCHES


class SparseAgent(Agent):
    """An agent whose points come at an interval."""

    def __init__(self, begins: int, interval: int) -> None:
        super().__init__(begins)
        self.interval = interval

    async def sql(self, _query: str, parameters: Sequence[Any]) -> pa.Table:
        _, after, until = parameters
        next_one = self.begins - (self.begins - after - 1) // self.interval * self.interval
        first = max(self.begins, next_one)
        return pa.table({"first": pa.array([first if first <= until else None], pa.int64())})


@pytest.mark.parametrize(("days", "is_covered"), [(3, True), (0.25, False)])
async def test_window_of_a_metric_with_rare_points_is_covered_by_an_earlier_point(
    days: float, is_covered: bool
) -> None:
    begins = NOW - round(days * DAY_MS) - MINUTE
    agent = SparseAgent(begins, 60 * MINUTE)
    # The window of 390 minutes begins 29 minutes after one point, and 31 minutes before the next.
    found = await reader(agent).coverage(definition("AVG(delay, 390 MINUTES)"), NOW)
    assert (found is None) is is_covered


async def test_window_ends_at_the_tick_of_a_time_of_day() -> None:
    text = "a = COMPUTE AVG(delay, 1 DAY) EVERY 1 DAY AT 01:00 UTC"
    (insight,) = check(text).definitions
    tick = NOW - NOW % DAY_MS + 60 * MINUTE
    tick -= DAY_MS if tick > NOW else 0
    found = await reader(Agent(tick - 60 * MINUTE)).at_latest_tick(insight)
    assert found == window(tick - DAY_MS, tick - 60 * MINUTE, tick)


async def test_covered_window_is_remembered_too() -> None:
    agent = Agent(NOW - 5000 * MINUTE)
    coverage, insight = reader(agent), definition("AVG(delay, 10 MINUTES)")
    for _ in range(3):
        assert await coverage.at_latest_tick(insight) is None
    assert agent.answers == 1


async def test_insights_with_the_same_window_and_ticks_share_one_search() -> None:
    agent = Agent(NOW - 4 * MINUTE)
    coverage = reader(agent)
    for text in ("AVG(delay, 10 MINUTES)", "MAX(delay, 10 MINUTES) + 1"):
        assert await coverage.at_latest_tick(definition(text)) is not None
    assert agent.answers == SEARCHES
    rare = msgspec.structs.replace(definition("AVG(delay, 10 MINUTES)"), every_ms=5 * MINUTE)
    assert await coverage.at_latest_tick(rare) is not None
    assert agent.answers == 2 * SEARCHES


@pytest.mark.parametrize("is_cut", [False, True])
async def test_window_does_not_lack_points_that_a_silent_site_may_have(is_cut: bool) -> None:
    class Sites(Agent):
        def at(self, site: str) -> Agent:
            if is_cut and site == "hub":
                raise UnavailableError("the site hub is unreachable")
            return self

    class TwoSites(Catalogue):
        known_series = SeriesIndex(
            [SeriesLocation(site, "delay", "bus-1") for site in ("edge", "hub")]
        )

    agent = Sites(NOW - 4 * MINUTE)
    coverage = CoverageReader(agent, TwoSites(), lambda: NOW)  # type: ignore[arg-type]
    found = await coverage.coverage(definition("AVG(delay, 10 MINUTES)"), NOW)
    assert (found is None) is is_cut


class ManySites(Catalogue):
    """A metric with series at more sites than one round of requests covers."""

    known_series = SeriesIndex(
        [SeriesLocation(f"site-{number:02}", "delay", "bus-1") for number in range(25)]
    )


class AgentOfMany(Agent):
    """An agent whose points begin two minutes ago at all sites but the last one."""

    def __init__(self, begins_at_last: int) -> None:
        super().__init__(begins_at_last)
        self.begins_at_last = begins_at_last

    def at(self, site: str) -> Agent:
        self.begins = self.begins_at_last if site == "site-24" else NOW - 2 * MINUTE
        return self


@pytest.mark.parametrize(
    ("minutes", "found"), [(4, window(NOW - 10 * MINUTE, NOW - 4 * MINUTE)), (10, None)]
)
async def test_first_points_are_searched_at_all_sites(
    minutes: int, found: WindowCoverage | None
) -> None:
    agent = AgentOfMany(NOW - minutes * MINUTE)
    coverage = CoverageReader(agent, ManySites(), lambda: NOW)  # type: ignore[arg-type]
    assert await coverage.coverage(definition("AVG(delay, 10 MINUTES)"), NOW) == found
    assert agent.most_at_once == SITES_AT_A_TIME


async def test_no_further_sites_are_asked_once_a_window_is_covered() -> None:
    agent = Agent(NOW - 5000 * MINUTE)
    coverage = CoverageReader(agent, ManySites(), lambda: NOW)  # type: ignore[arg-type]
    assert await coverage.coverage(definition("AVG(delay, 10 MINUTES)"), NOW) is None
    assert agent.answers == SITES_AT_A_TIME


async def test_reader_searches_few_windows_at_a_time() -> None:
    agent = Agent(NOW - 4 * MINUTE)
    coverage = reader(agent)
    insights = [definition(f"AVG(delay, {minutes} MINUTES)") for minutes in range(5, 55)]
    found = await asyncio.gather(*map(coverage.at_latest_tick, insights))
    assert None not in found
    assert (agent.most_at_once, agent.answers) == (MAX_SEARCHES, 50 * SEARCHES)
