"""The comparison of results with the oracle: wrong results, and only uncorrected results."""

import json

import pyarrow as pa
import pytest

from analytics.insight_models import Result
from tests.chaos.deployments import Deployment, Generation
from tests.chaos.verdict import ComparedResults, compare, expected_results
from tests.oracle.sql import POINTS
from tests.oracle.stored_points import Identity

TEXT = "n = COMPUTE SUM(hits, 2 SECONDS) EVERY 2 SECONDS"


def points(*rows: tuple[int, float, int]) -> pa.Table:
    """Return points (time, value, frontier before) in ms."""
    common = {"metric": "hits", "entity": "e", "attributes": json.dumps({"site": "north"})}
    found = [{**common, "ts": ts, "value": value, "horizon": seen} for ts, value, seen in rows]
    return pa.Table.from_pylist(found, POINTS)


def deployment(*generations: tuple[int, int | None]) -> Deployment:
    """Return a deployment of one insight; ``generations``: (since, until) in ms."""
    found = [
        Generation(f"d/n/{number}", "n", TEXT, since, until)
        for number, (since, until) in enumerate(generations)
    ]
    return Deployment("d", "steady", {}, "fair", found)


def results(
    values: dict[int, float], missing: dict[int, str] | None = None
) -> dict[Identity, Result]:
    """Return results: tick (ms) -> value; ``missing``: tick -> a missing site."""
    return {
        ("n", "{}", tick): Result(
            insight="n",
            key={},
            ts=tick,
            value=value,
            revision=0,
            computed_at=tick,
            missing=[missing[tick]] if missing and tick in missing else [],
        )
        for tick, value in values.items()
    }


STORED = points((1000, 1.0, 0), (3000, 2.0, 0), (3500, 4.0, 5000), (5000, 8.0, 0))


def test_results_with_late_points_equal_the_oracle() -> None:
    one = deployment((0, None))
    expected = expected_results(one, STORED, 6000)
    found = results({2000: 1.0, 4000: 6.0, 6000: 8.0})
    assert compare(one, found, expected) == ComparedResults(3, 0)


@pytest.mark.parametrize(
    "found",
    [
        results({2000: 1.0, 4000: 2.0, 6000: 8.0}),
        results({2000: 1.0, 6000: 8.0}),
        results({2000: 1.0, 4000: 6.0, 6000: 8.0, 8000: 1.0}),
        results({2000: 1.0, 4000: 6.0, 6000: 8.0}, {6000: "north"}),
    ],
    ids=["uncorrected", "missing", "superfluous", "without a site"],
)
def test_other_results_are_wrong(found: dict[Identity, Result]) -> None:
    one = deployment((0, None))
    with pytest.raises(AssertionError, match="1 of 3 results are wrong"):
        compare(one, found, expected_results(one, STORED, 6000))


def test_ended_generation_may_lack_late_points_and_named_sites() -> None:
    one = deployment((0, 4000), (4000, None))
    expected = expected_results(one, STORED, 6000)
    found = results({2000: 0.5, 4000: 2.0, 6000: 8.0}, {2000: "north"})
    assert compare(one, found, expected) == ComparedResults(1, 2)


def test_ended_generation_must_be_right_otherwise() -> None:
    one = deployment((0, 4000), (4000, None))
    expected = expected_results(one, STORED, 6000)
    with pytest.raises(AssertionError, match="1 of 3 results are wrong"):
        compare(one, results({2000: 0.5, 4000: 2.0, 6000: 8.0}), expected)
    with pytest.raises(AssertionError, match="1 of 3 results are wrong"):
        compare(one, results({2000: 1.0, 4000: 6.0, 6000: 7.0}), expected)
