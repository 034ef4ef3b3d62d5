"""The comparison of results with the oracle: wrong results, and only uncorrected results."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from analytics.insight_models import Result
from tests.chaos.deployments import Deployment, Generation
from tests.chaos.expected import LATE_MS, expected_results
from tests.chaos.verdict import ComparedResults, compare
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


ENDED = deployment((0, 4000), (4000, None))
END = 4000 + LATE_MS
"""The frontier (ms) up to which late points correct the ended generation."""


def test_ended_generation_may_lack_points_that_arrived_long_after_its_end() -> None:
    stored = points((1000, 1.0, 0), (3000, 2.0, 0), (3500, 4.0, END), (5000, 8.0, 0))
    expected = expected_results(ENDED, stored, 6000)
    first = results({2000: 1.0, 4000: 2.0, 6000: 8.0})
    assert compare(ENDED, first, expected) == ComparedResults(2, 1)
    corrected = results({2000: 1.0, 4000: 6.0, 6000: 8.0})
    assert compare(ENDED, corrected, expected) == ComparedResults(3, 0)


def test_ended_generation_may_include_some_of_the_points_that_arrived_long_after_its_end() -> None:
    later = [(3500, 4.0, END), (3600, 8.0, END + 1000), (3700, 16.0, END + 2000)]
    expected = expected_results(ENDED, points((1000, 1.0, 0), (3000, 2.0, 0), *later), 4000)
    for value, equal in ((2.0, 1), (6.0, 1), (14.0, 1), (30.0, 2)):
        compared = compare(ENDED, results({2000: 1.0, 4000: value}), expected)
        assert compared == ComparedResults(equal, 2 - equal)
    with pytest.raises(AssertionError, match="1 of 2 results are wrong"):
        compare(ENDED, results({2000: 1.0, 4000: 22.0}), expected)


def test_result_of_ended_generation_may_come_from_a_later_point_only() -> None:
    expected = expected_results(ENDED, points((1000, 1.0, 0), (3500, 4.0, END)), 4000)
    assert compare(ENDED, results({2000: 1.0}), expected) == ComparedResults(1, 1)
    assert compare(ENDED, results({2000: 1.0, 4000: 4.0}), expected) == ComparedResults(2, 0)


@pytest.mark.parametrize(
    "found",
    [
        results({2000: 0.5, 4000: 6.0, 6000: 8.0}),
        results({2000: 1.0, 4000: 2.0, 6000: 8.0}),
        results({2000: 1.0, 4000: 5.0, 6000: 8.0}),
        results({2000: 1.0, 6000: 8.0}),
        results({2000: 1.0, 4000: 6.0, 6000: 7.0}),
        results({2000: 1.0, 4000: 6.0, 6000: 8.0}, {2000: "north"}),
        results({2000: 0.5, 4000: 6.0, 6000: 8.0}, {2000: "north"}),
    ],
    ids=[
        "wrong",
        "late point before the end",
        "wrong at a tick with a late point",
        "missing at a tick with a late point",
        "wrong in the present generation",
        "without a site",
        "wrong without a site",
    ],
)
def test_ended_generation_must_be_right_otherwise(found: dict[Identity, Result]) -> None:
    with pytest.raises(AssertionError, match="1 of 3 results are wrong"):
        compare(ENDED, found, expected_results(ENDED, STORED, 6000))


def test_deleted_deployment_may_lack_late_points_and_named_sites() -> None:
    deleted = replace(deployment((0, 6000)), is_deleted=True)
    late = (3500, 4.0, 4000)
    stored = points((1000, 1.0, 500), (3000, 2.0, 2500), late, (5000, 8.0, 4500))
    expected = expected_results(deleted, stored, 6000)
    found = results({2000: 0.5, 4000: 2.0, 6000: 8.0}, {2000: "north"})
    assert compare(deleted, found, expected) == ComparedResults(1, 2)
    for wrong in (
        results({2000: 1.0, 4000: 6.0, 6000: 7.0}),
        results({2000: 1.0, 4000: 5.0, 6000: 8.0}),
        results({2000: 1.0, 4000: 6.0}),
        results({2000: 1.0, 6000: 8.0}),
        results({2000: 0.5, 4000: 6.0, 6000: 8.0}),
    ):
        with pytest.raises(AssertionError, match="1 of 3 results are wrong"):
            compare(deleted, wrong, expected)


def test_result_may_have_any_value_if_too_many_points_arrived_long_after_the_end() -> None:
    later = [(3500, 4.0, END + number) for number in range(30)]
    stored = points((1000, 1.0, 0), (3000, 2.0, 0), *later)
    expected = expected_results(ENDED, stored, 4000)
    assert compare(ENDED, results({2000: 1.0, 4000: 7.0}), expected) == ComparedResults(1, 1)
    for wrong in (results({2000: 2.0, 4000: 7.0}), results({2000: 1.0})):
        with pytest.raises(AssertionError, match="1 of 2 results are wrong"):
            compare(ENDED, wrong, expected)
