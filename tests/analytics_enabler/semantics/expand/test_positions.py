"""STREAMs of the provider ``position``, and streams after COMPUTE."""

import pytest

from analytics.plan.text import expression_text
from analytics_enabler.semantics import Checked, check

_PLACE = 'here: STREAM FROM position(metric="speed", latitude="lat", longitude="lon")'
_EAST = 'easterly: STREAM FROM storage(region="east")'
_METRICS = frozenset({"speed", "cost", "gps"})


def _check(definition: str, insight: str) -> Checked:
    return check(f"{definition};\nq = COMPUTE {insight}", _METRICS)


def _expression(definition: str, insight: str) -> str:
    checked = _check(definition, insight)
    (found,) = checked.definitions
    return expression_text(found.expression, found.by)


def test_position_is_read_from_both_attributes_of_the_latest_point() -> None:
    text = _expression(_PLACE, "GEOHASH[6](here) BY node EVERY 5 SECONDS")
    assert text == "GEOHASH[6]((lat, lon) of LATEST(speed, 1 MINUTE))"


@pytest.mark.parametrize(
    ("clauses", "points"),
    [
        ("WHEN > 3", "speed WHEN value > 3"),
        ('WHEN region == "east" AND < 9', 'speed WHEN region == "east" AND value < 9'),
        ("FROM (bus1)", "speed FROM (bus1)"),
        ("FROM (easterly) WHEN > 3", 'speed WHEN region IN ("east") AND value > 3'),
    ],
)
def test_position_of_some_points_is_read_from_these_points(clauses: str, points: str) -> None:
    definitions = f"{_PLACE};\n{_EAST}"
    text = f"GEOHASH[6](here {clauses}) BY node EVERY 5 SECONDS"
    found = _expression(definitions, text)
    assert found == f"GEOHASH[6]((lat, lon) of LATEST({points}, 1 MINUTE))"
    problems = _check(_PLACE, text).problems
    assert "easterly" in clauses or problems == ()


def test_condition_of_a_position_names_its_metric_by_no_name() -> None:
    (problem,) = _check(_PLACE, "GEOHASH[6](here WHEN speed > 3) EVERY 5 SECONDS").problems
    assert problem.message == "`speed` is the metric itself, not an attribute of its points"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('metric="speed", latitude="lat"', "the setting `longitude` is missing"),
        ("", "the settings `metric` and `latitude` and `longitude` are missing"),
        ('metric="speed", lat="lat", longitude="lon"', "`position` has no setting `lat`"),
        ('metric="speed", latitude=1, longitude="lon"', "`latitude` takes one name"),
    ],
)
def test_erroneous_position_has_an_error(settings: str, message: str) -> None:
    definition = f"here: STREAM FROM position({settings})"
    found = _check(definition, "GEOHASH[6](here) BY node EVERY 5 SECONDS")
    assert message in {each.message for each in found.problems}
    assert not found.ok


def test_unused_position_has_a_warning_with_an_example() -> None:
    (problem,) = _check(_PLACE, "AVG(speed, 5 s) EVERY 5 SECONDS").problems
    assert "GEOHASH[6](here)" in (problem.hint or "")


def test_stream_after_compute_is_the_metric_of_the_condition() -> None:
    text = _expression(_EAST, "easterly BY stop WHEN speed > 9 EVERY 5 SECONDS")
    assert text == 'LATEST(speed WHEN region IN ("east"), 1 MINUTE)'


def test_stream_after_compute_is_the_metric_of_allow() -> None:
    text = _expression(_EAST, "easterly EVERY 5 SECONDS WITH ALLOW WHEN cost < 8")
    assert text == 'LATEST(cost WHEN region IN ("east") AND value < 8, 1 MINUTE)'


@pytest.mark.parametrize("rest", ["", " WHEN > 5", ' WHEN region == "east"'])
def test_stream_after_compute_without_a_metric_has_an_error(rest: str) -> None:
    problems = _check(_EAST, f"easterly{rest} EVERY 5 SECONDS").problems
    message = "`easterly` is a stream, and no condition names its metric"
    assert [each.message for each in problems if each.severity == "error"] == [message]


def test_feed_after_compute_has_an_error() -> None:
    feed = 'weather: STREAM FROM stream(name="app/weather")'
    (problem, *_) = _check(feed, "weather WHEN speed > 5 EVERY 5 SECONDS").problems
    assert problem.message == "`weather` is a stream without a metric of its own"


def test_metric_with_the_name_of_a_stream_stays_the_metric() -> None:
    definition = 'cost: STREAM FROM storage(region="east")'
    assert (
        _expression(definition, "cost WHEN speed > 5 EVERY 5 SECONDS") == "LATEST(cost, 1 MINUTE)"
    )
