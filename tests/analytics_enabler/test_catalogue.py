"""Tests of the index of series from which the enabler makes its estimates."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, Never

import pytest

from analytics.plan.expressions import Source
from analytics.plan.fragments import Partial, StreamLocation
from analytics.plan.nodes import Pane
from analytics_enabler.catalogue import MAX_AGE_MS, DataCatalogue, SeriesIndex, SeriesLocation
from analytics_enabler.scheduling.cost_model.work import work_of
from analytics_enabler.scheduling.driver.traffic import estimate_pane_bytes, matching_series
from mistbow.errors import UnavailableError

SERIES = [
    SeriesLocation(site, metric, f"bus{number}")
    for site in ("edge", "cloud")
    for metric in ("load", "delay")
    for number in range(10)
]


class Unvisited(set[str]):
    """The entities of a metric, which may be counted and looked up, but not visited."""

    def __iter__(self) -> Iterator[Never]:
        raise AssertionError("a series was visited")


def pane(metric: str, *entities: str) -> Pane:
    return Pane(id="p", source=Source(metric, entities=entities), by=("entityID",), width_ms=1000)


def test_estimates_visit_no_series_of_a_metric_however_many_there_are() -> None:
    entities = Unvisited(f"bus{number}" for number in range(1000))
    index = SeriesIndex.of_entities(
        {("edge", "load"): entities, ("edge", "delay"): Unvisited(["bus1"])}
    )
    fragment = Partial(
        id="f",
        source=StreamLocation("edge", "raw"),
        target=StreamLocation("edge", "panes/f"),
        panes=(pane("load"), pane("load", "bus7"), pane("delay")),
        grain_ms=1000,
        lookback_ms=1000,
        begin=0,
    )
    work = work_of(fragment, index, {("edge", "load"): 2.0, ("edge", "delay"): 3.0})
    assert (work.cpu["point"], work.cpu["routed"]) == (2003.0, 2005.0)
    assert estimate_pane_bytes(fragment, index) > 0


@pytest.mark.parametrize(
    ("panes", "found"),
    [
        ([pane("load")], {("edge", "load"): 10, ("cloud", "load"): 10}),
        ([pane("load", "bus1"), pane("load")], {("edge", "load"): 10, ("cloud", "load"): 10}),
        (
            [pane("load", "bus1", "bus2"), pane("load", "bus2", "car")],
            {("edge", "load"): 2, ("cloud", "load"): 2},
        ),
        ([pane("load", "car"), pane("other")], {}),
    ],
)
def test_index_counts_each_series_once_that_a_pane_reads(
    panes: list[Pane], found: dict[tuple[str, str], int]
) -> None:
    assert matching_series(panes, SERIES) == found


def test_index_at_sites_has_their_series_only() -> None:
    index = SeriesIndex(SERIES).at({"edge", "nowhere"})
    assert (len(index), index.metrics) == (20, {"load", "delay"})
    assert index.counts == {("edge", "load"): 10, ("edge", "delay"): 10}


async def test_requests_that_wait_for_a_slow_read_of_the_series_share_it() -> None:
    now, reads = 0, 0

    async def iterate_series(**_: object) -> AsyncIterator[dict[str, str]]:
        nonlocal now, reads
        reads += 1
        await asyncio.sleep(0)
        now += 2 * MAX_AGE_MS
        yield {"node": "edge-a", "metricID": "load", "entityID": "bus1"}

    agent: Any = SimpleNamespace(iterate_series=iterate_series)
    view: Any = SimpleNamespace(site_of_node={"edge-a": "edge"})
    catalogue = DataCatalogue(agent, view, lambda: now)
    found = await asyncio.gather(*(catalogue.series() for _ in range(5)))
    assert [series and series.counts for series in found] == [{("edge", "load"): 1}] * 5
    assert reads == 1
    now += MAX_AGE_MS
    await catalogue.series()
    assert reads == 2


async def test_series_remain_known_while_the_agent_does_not_answer() -> None:
    is_away = False

    async def iterate_series(**_: object) -> AsyncIterator[dict[str, str]]:
        if is_away:
            raise UnavailableError("no answer")
        yield {"node": "edge-a", "metricID": "load", "entityID": "bus1"}

    now = 0
    agent: Any = SimpleNamespace(iterate_series=iterate_series)
    view: Any = SimpleNamespace(site_of_node={})
    catalogue = DataCatalogue(agent, view, lambda: now)
    assert catalogue.known_series is None
    known = await catalogue.series()
    now, is_away = MAX_AGE_MS, True
    assert await catalogue.series() is None
    assert catalogue.known_series is known
