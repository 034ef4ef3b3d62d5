"""What the monitoring agent leaves out, and what it says of the rest."""

import itertools

import numpy as np
import pytest

from mistbow.client.agent_model import Point
from mistbow.monitoring.adapting import Adapting
from mistbow.sampling.adaptive import MOST, Asked, confidences, stands_for

INTERVAL = 1000
ASKED = Asked(0.9, 10_000)
SECONDS = 400


def walk() -> list[float]:
    """Return values that wander steadily, and jump once."""
    steps = np.random.default_rng(3).normal(0, 0.2, SECONDS)
    steps[SECONDS // 2] = 40
    return [float(value) for value in 50 + np.cumsum(steps)]


def collected(
    adapting: Adapting, values: list[float], jitter_ms: int = 40
) -> tuple[list[Point], int]:
    """Return what is sent of a collector of one series, and in how many rounds it rested."""
    random = np.random.default_rng(4)
    sent, rested = [], 0
    for second, value in enumerate(values):
        now = second * INTERVAL + int(random.integers(0, jitter_ms))
        if adapting.rests("c", now):
            rested += 1
            continue
        sent += adapting.sent("c", [Point(metric="m", entity="e", ts=now, value=value)], now)
    return sent, rested


def test_values_are_skipped_while_they_stand_and_each_says_for_how_long() -> None:
    adapting = Adapting(INTERVAL, {})
    adapting.ask({"m": ASKED})
    values = walk()
    sent, rested = collected(adapting, values)
    assert len(sent) < SECONDS / 2
    assert rested == SECONDS - len(sent), "what stands is not even measured"
    for point, following in itertools.pairwise(sent):
        assert point.labels is not None
        rounds = round((following.ts - point.ts) / INTERVAL)
        assert stands_for(point.labels) == rounds <= 10
    kept = [(point.value, stands_for(point.labels or {})) for point in sent]
    mean = sum(value * times for value, times in kept) / sum(times for _, times in kept)
    assert mean == pytest.approx(np.mean(values), rel=0.01)


def test_where_all_is_needed_too_all_is_sent_and_the_same_is_marked() -> None:
    alone, beside = Adapting(INTERVAL, {}), Adapting(INTERVAL, {})
    alone.ask({"m": ASKED})
    beside.ask({"m": Asked(0.9, 10_000, whole=True)})
    thinned, _ = collected(alone, walk())
    whole, rested = collected(beside, walk())
    assert (len(whole), rested) == (SECONDS, 0)
    assert [point for point in whole if stands_for(point.labels or {})] == thinned


def test_nothing_is_left_out_that_nobody_spoke_of_and_what_is_no_longer_asked_for_is_whole() -> (
    None
):
    adapting = Adapting(INTERVAL, {})
    points = [Point(metric=name, entity="e", ts=0, value=1) for name in ("m", "n")]
    assert adapting.sent("c", points, 0) == points
    adapting.ask({"m": ASKED})
    for now in range(1000, 6000, 1000):
        adapting.sent("c", points, now)
    assert not adapting.rests("c", 6000), "another metric is collected with it"
    assert {point.metric for point in adapting.sent("c", points, 6000)} <= {"m", "n"}
    adapting.ask({})
    assert adapting.sent("c", points, 6100) == points


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    adapting = Adapting(INTERVAL, {})
    adapting.ask({"m": ASKED})
    collected(adapting, [1.0] * 30)
    later = [Point(metric="m", entity="e", ts=5, value=1)]
    assert not adapting.rests("c", 5)
    assert adapting.sent("c", later, 5)


def test_what_the_agent_does_by_itself_no_insight_undoes() -> None:
    adapting = Adapting(INTERVAL, {"m*": Asked(0.8, 5000)})
    adapting.ask({"m": Asked(0.9, 100_000, whole=True)})
    sent, _ = collected(adapting, [1.0] * 60)
    assert len(sent) < 30
    assert max(stands_for(point.labels or {}) for point in sent) == 5


def test_a_source_that_samples_by_itself_is_left_alone() -> None:
    adapting = Adapting(INTERVAL, {"*": ASKED})
    point = Point(metric="m", entity="e", ts=0, value=1, labels={"holds_ms": 5, "every_ms": 1})
    assert adapting.sent("c", [point], 0) == adapting.sent("c", [point], 100) == [point]


@pytest.mark.parametrize("text", ["cpu", "=0.9", "cpu=1", "cpu=high", "cpu=0"])
def test_a_setting_without_a_confidence_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form METRIC=CONFIDENCE"):
        confidences(text)


def test_nobody_makes_many_values_of_one() -> None:
    assert stands_for({"holds_ms": 1e300, "every_ms": 1}) == MOST
