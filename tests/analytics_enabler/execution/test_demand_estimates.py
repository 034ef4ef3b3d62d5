"""The estimates of demands between two measurements of the points."""

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
    """The series of all sites, and their rates."""

    async def series(self) -> SeriesIndex:
        """Return the series."""
        return SERIES

    async def metric_rates(self, _sites: list[str]) -> dict[tuple[str, str], Any]:
        """Return the rates."""
        return {("s", "x"): SimpleNamespace(points_per_s=10.0, entities=frozenset("e"))}


async def test_work_of_a_fragment_is_computed_once_for_each_measurement_of_the_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[SeriesIndex] = []

    def recorded(fragment: Fragment, series: SeriesIndex, rates: SeriesRates) -> Work:
        computed.append(series)
        return work_of(fragment, series, rates)

    monkeypatch.setattr(demand_estimates, "work_of", recorded)
    no_workers: Any = SimpleNamespace(all=list)
    points: Any = Points()
    unused: Any = None
    estimates = DemandEstimates(unused, no_workers, points, points, unused, lambda: None)
    before = [estimates.estimated(FRAGMENT) for _ in range(3)]
    await estimates.prepare([FRAGMENT])
    after = [estimates.estimated(FRAGMENT) for _ in range(3)]
    assert [len(series) for series in computed] == [0, 1]
    assert before[0] != after[0]
