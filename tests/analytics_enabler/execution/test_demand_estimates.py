"""The estimates of demands between two measurements of the points."""

from collections.abc import Container
from types import SimpleNamespace
from typing import Any

import pytest

from analytics.plan.fragments import Fragment
from analytics_enabler.catalogue import SeriesIndex, SeriesLocation
from analytics_enabler.execution import demand_estimates
from analytics_enabler.execution.demand_estimates import DemandEstimates
from analytics_enabler.fragments import WHOLE, whole
from analytics_enabler.groups import Group
from analytics_enabler.optimizer import optimize
from analytics_enabler.scheduling.cost_model.work import SeriesRates, Work, work_of
from tests.analytics_enabler.support import plan_of

PLAN = optimize(plan_of("a = COMPUTE AVG(x) EVERY 1 s")).plan
FRAGMENT = whole(Group(scope="s", scheduler="fair"), PLAN, "s")[WHOLE]
SERIES = SeriesIndex([SeriesLocation("s", "x", "e")])


class Points:
    """The series of all sites, and their rates; ``asked``: the sites whose rates were read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def series(self) -> SeriesIndex:
        """Return the series."""
        return SERIES

    async def metric_rates(self, sites: list[str]) -> dict[tuple[str, str], Any]:
        """Return the rates."""
        self.asked += sites
        return {("s", "x"): SimpleNamespace(points_per_s=10.0, entities=frozenset("e"))}


def estimates_of(points: Any, reachable: Container[str] = ("s",)) -> DemandEstimates:
    """Return the estimates at an enabler without workers that reaches some sites."""
    no_workers: Any = SimpleNamespace(all=list)
    unused: Any = None
    return DemandEstimates(
        unused, no_workers, points, points, unused, lambda: None, reachable.__contains__
    )


async def test_rates_of_unreachable_sites_are_not_read() -> None:
    points = Points()
    far = whole(Group(scope="far", scheduler="fair"), PLAN, "far")[WHOLE]
    await estimates_of(points).prepare([FRAGMENT, far])
    assert points.asked == ["s"]


async def test_rates_of_a_site_that_returns_are_read_at_once() -> None:
    points, reachable = Points(), ["s"]
    estimates = estimates_of(points, reachable)
    far = whole(Group(scope="far", scheduler="fair"), PLAN, "far")[WHOLE]
    await estimates.prepare([FRAGMENT, far])
    await estimates.prepare([FRAGMENT, far])
    reachable.append("far")
    await estimates.prepare([FRAGMENT, far])
    assert points.asked == ["s", "far", "s"]


async def test_work_of_a_fragment_is_computed_once_for_each_measurement_of_the_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[SeriesIndex] = []

    def recorded(fragment: Fragment, series: SeriesIndex, rates: SeriesRates) -> Work:
        computed.append(series)
        return work_of(fragment, series, rates)

    monkeypatch.setattr(demand_estimates, "work_of", recorded)
    estimates = estimates_of(Points())
    before = [estimates.estimated(FRAGMENT) for _ in range(3)]
    await estimates.prepare([FRAGMENT])
    after = [estimates.estimated(FRAGMENT) for _ in range(3)]
    assert [len(series) for series in computed] == [0, 1]
    assert before[0] != after[0]
