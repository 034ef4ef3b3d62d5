"""Insights WITH ADAM: their results are close to the results of all values."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from analytics.plan.nodes import Plan
from analytics_enabler.optimizer import optimize
from analytics_enabler.semantics import check
from analytics_worker.evaluate.composition import compose
from analytics_worker.stateful.state_table import StateTable
from mistbow.client import Point
from mistbow.sampling.adaptive import SamplingRequest
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from tests.support.points import Row, points
from tests.support.windows import windows_of

SECONDS = 600
FUNCTIONS = ("SUM", "COUNT", "AVG", "MAX", "MIN", "MEDIAN", "GEOMETRIC_MEAN", "PERCENTILE[80]")


@cache
def measured(*, all_values: bool) -> pa.RecordBatch:
    """Return the points that a monitoring agent with AdaM sends for three random walks.

    ``all_values``: whether the sampling request makes the agent send all points.
    """
    random = np.random.default_rng(11)
    values = 60 + np.cumsum(random.normal(0, [0.05, 0.2, 0.5], (SECONDS, 3)), axis=0)
    sampler = AdaptiveSampler(1000, {})
    sampler.set_requests({"x": SamplingRequest(0.9, 10_000, all_values=all_values)})
    sent: list[Point] = []
    for second, each in enumerate(values.tolist(), start=1):
        now = second * 1000
        found = [
            Point(metric="x", entity=f"e{place}", ts=now, value=value)
            for place, value in enumerate(each)
        ]
        sent += sampler.sample("c", found, now)
    rows = [Row("x", p.entity, p.ts, p.value, attributes=p.labels or {}) for p in sent]
    return points(rows)


def results(query: str, rows: pa.RecordBatch) -> dict[tuple[int, str], float]:
    """Compute a query; return the values of its complete windows: (tick, key) -> value."""
    checked = check(f"q = COMPUTE {query}")
    assert checked.ok, checked.problems
    plan = optimize(Plan(insights=tuple(one.deployed("q", 0) for one in checked.definitions))).plan
    found = compose(windows_of(rows, plan), plan, StateTable()).to_pylist()
    assert all(row["low"] is None for row in found), "nothing is drawn by lot"
    whole = [row for row in found if 60_000 <= row["ts"] <= SECONDS * 1000]
    return {(row["ts"], row["key"]): row["value"] for row in whole}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_adaptive_results_are_close_and_independent_of_other_points(
    function: str,
) -> None:
    query = f"{function}(x, 1 MINUTE) BY entityID EVERY 10 s"
    thinned, whole = measured(all_values=False), measured(all_values=True)
    assert thinned.num_rows < whole.num_rows / 2
    assert whole.num_rows == 3 * SECONDS
    exact = results(query, whole)
    near = results(f"{query} WITH ADAM AND CONFIDENCE 0.9", thinned)
    assert results(f"{query} WITH ADAM AND CONFIDENCE 0.9", whole) == near
    assert near.keys() == exact.keys()
    off = [abs(near[at] / exact[at] - 1) for at in exact]
    # At both ends of a window, a value may count that stands for ten of its sixty.
    assert max(off) < (0.17 if function in ("SUM", "COUNT") else 0.08)
    assert np.mean(off) < (0.05 if function in ("SUM", "COUNT") else 0.01)
