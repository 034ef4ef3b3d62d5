"""The results of a deployment: their arrival, and their comparison with those of the oracle."""

from collections.abc import Collection

import pyarrow as pa
import pytest

from analytics.client.enabler import EnablerClient
from mistbow.client.agent import AgentClient
from mistbow.errors import MistbowError
from tests.oracle.stored_points import Identity, compact_key, expected_values, stored_points
from tests.support.conditions import eventually


def await_results(
    enabler: EnablerClient, deployment: str, after: int, *, timeout: float = 120.0
) -> None:
    """Wait until each insight has a result of a tick after a time (ms)."""

    def found() -> bool:
        try:
            rows = enabler.results(deployment, start=after + 1).results
            names = {each.name for each in enabler.show(deployment).insights}
        except MistbowError as error:
            raise AssertionError(error.message) from error
        return {row.insight for row in rows} == names

    eventually(found, timeout=timeout, what=f"results after {after}")


def await_oracle(
    enabler: EnablerClient,
    deployment: str,
    agents: Collection[AgentClient],
    metric: str,
    end: int,
    *,
    timeout: float = 120.0,
) -> int:
    """Wait until all results up to a time (ms) equal those of the oracle; return their number.

    ``agents``: of all sites with points of ``metric``, the only metric of the insights.
    """
    described = enabler.show(deployment)
    since = max(each.since for each in described.insights)

    def equal() -> int:
        try:
            rows = enabler.results(deployment, limit=100_000, end=end).results
        except MistbowError as error:
            raise AssertionError(error.message) from error
        found: dict[Identity, float | None] = {
            (row.insight, compact_key(row.key), row.ts): row.value for row in rows if row.ts > since
        }
        assert len(found) == len([row for row in rows if row.ts > since]), "doubled"
        points = pa.concat_tables([stored_points(agent, metric) for agent in agents])
        right = expected_values(described.queries, points, since, end)
        missing, superfluous = right.keys() - found.keys(), found.keys() - right.keys()
        assert not missing, f"{len(missing)} missing: {sorted(missing)[:5]}"
        assert not superfluous, f"{len(superfluous)} superfluous: {sorted(superfluous)[:5]}"
        assert found == pytest.approx(right, rel=1e-9)
        return len(found)

    return eventually(equal, timeout=timeout, pause=0.5, what="the results equal the oracle's")
