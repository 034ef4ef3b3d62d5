"""The quality of points: completeness by the series' own intervals, timeliness and accuracy."""

from collections.abc import Iterable

import pyarrow as pa
import pytest

from analytics_worker.lifecycle.point_quality import FORGET_MS, Quality, QualityMeter

PERIOD_MS = 5_000
RANGES = {("load", "a"): (0.0, 100.0)}


def table(points: Iterable[tuple[str, int, float]], horizon: int = 0) -> pa.Table:
    """Return points of the metric ``load``: (entity, ts, value)."""
    rows = list(points)
    return pa.table(
        {
            "metric": pa.array(["load"] * len(rows)).dictionary_encode(),
            "entity": pa.array([entity for entity, _, _ in rows]).dictionary_encode(),
            "ts": pa.array([ts for _, ts, _ in rows], pa.int64()),
            "value": pa.array([value for _, _, value in rows], pa.float64()),
            "horizon": pa.array([horizon] * len(rows), pa.int64()),
        }
    )


def period(number: int, step_ms: int = 1000, entity: str = "a") -> list[tuple[str, int, float]]:
    """Return the points of a series in a period."""
    start = number * PERIOD_MS
    return [(entity, ts, 50.0) for ts in range(start, start + PERIOD_MS, step_ms)]


def read(meter: QualityMeter, number: int, points: Iterable[tuple[str, int, float]]) -> Quality:
    began = number * PERIOD_MS
    return meter.read(table(points), began, began + PERIOD_MS, RANGES)["load"]


def test_regular_series_is_complete() -> None:
    meter = QualityMeter()
    for number in range(1, 5):
        found = read(meter, number, period(number))
    assert found.completeness == pytest.approx(1.0)
    assert (found.timeliness, found.accuracy) == (1.0, 1.0)


@pytest.mark.parametrize("lost", [2, 3])
def test_lost_points_lower_completeness_although_gaps_grow(lost: int) -> None:
    meter = QualityMeter()
    for number in (1, 2):
        read(meter, number, period(number))
    for number in range(3, 15):
        kept = [point for point in period(number, 500) if point[1] // 500 % 6 >= lost]
        found = read(meter, number, kept)
    assert found.completeness == pytest.approx(1 - lost / 6, abs=0.05)


def test_silent_series_is_expected_until_it_is_forgotten() -> None:
    meter = QualityMeter()
    for number in range(1, 4):
        read(meter, number, period(number) + period(number, entity="b"))
    for number in range(4, 12):
        found = read(meter, number, period(number))
    assert found.completeness == pytest.approx(0.5)
    end = 12 + FORGET_MS // PERIOD_MS
    for number in range(end, end + 7):
        found = read(meter, number, period(number))
    assert found.completeness == pytest.approx(1.0)


def test_irregular_series_has_no_completeness() -> None:
    meter = QualityMeter()
    times = [10, 310, 2210, 2660, 5260, 5960, 7210, 9999]
    found = read(meter, 0, [("a", ts, 1.0) for ts in times])
    assert found.completeness is None


def test_gap_over_an_unread_period_is_no_interval() -> None:
    meter = QualityMeter()
    for number in range(0, 20, 2):
        meter.skip()
        found = read(meter, number, period(number))
    assert found.completeness == pytest.approx(1.0)


def test_values_outside_of_the_declared_range_lower_accuracy() -> None:
    points = [("a", 1, 50.0), ("a", 2, 100.0), ("a", 3, 100.5), ("a", 4, float("nan"))]
    found = read(QualityMeter(), 0, [*points, ("undeclared", 5, 1e9)])
    assert found.accuracy == 0.5


def test_late_points_lower_timeliness() -> None:
    points = table([("a", 1, 0.0), ("a", 2, 0.0), ("a", 9, 0.0), ("a", 10, 0.0)], horizon=2)
    [found] = QualityMeter().read(points, 0, PERIOD_MS, {}).values()
    assert (found.timeliness, found.accuracy) == (0.5, None)


def test_period_without_points_has_no_figures() -> None:
    assert QualityMeter().read(table([]), 0, PERIOD_MS, {}) == {}
