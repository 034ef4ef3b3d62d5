"""Adaptive sampling: which points are skipped, and the labels of the others."""

import itertools

import numpy as np
import pytest

from mistbow.client import Point
from mistbow.sampling.adaptive import (
    MAX_WEIGHT,
    SamplingRequest,
    sampling_weight,
)
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from monitoring_agent.sampling_requests import parse_confidences

INTERVAL = 1000
REQUEST = SamplingRequest(0.9, 10_000)
SECONDS = 400


def walk() -> list[float]:
    """Return the values of a random walk with one jump."""
    steps = np.random.default_rng(3).normal(0, 0.2, SECONDS)
    steps[SECONDS // 2] = 40
    return [float(value) for value in 50 + np.cumsum(steps)]


def collected(
    sampler: AdaptiveSampler, values: list[float], jitter_ms: int = 40
) -> tuple[list[Point], int]:
    """Sample the values of one series, one value per round.

    Returns the sampled points, and the number of rounds in which the collector is skipped.
    """
    random = np.random.default_rng(4)
    sent, skipped = [], 0
    for second, value in enumerate(values):
        now = second * INTERVAL + int(random.integers(0, jitter_ms))
        if sampler.skips("c", now):
            skipped += 1
            continue
        sent += sampler.sample("c", [Point(metric="m", entity="e", ts=now, value=value)], now)
    return sent, skipped


def test_sampler_skips_values_while_the_last_is_valid_and_labels_each_with_its_period() -> None:
    sampler = AdaptiveSampler(INTERVAL, {})
    sampler.set_requests({"m": REQUEST})
    values = walk()
    sent, skipped = collected(sampler, values)
    assert len(sent) < SECONDS / 2
    assert skipped == SECONDS - len(sent), "what stands is not even measured"
    for point, following in itertools.pairwise(sent):
        assert point.labels is not None
        rounds = round((following.ts - point.ts) / INTERVAL)
        assert sampling_weight(point.labels) == rounds <= 10
    weighted = [(point.value, sampling_weight(point.labels or {})) for point in sent]
    mean = sum(value * times for value, times in weighted) / sum(times for _, times in weighted)
    assert mean == pytest.approx(np.mean(values), rel=0.01)


def test_sampler_sends_all_values_on_request_and_labels_the_same_samples() -> None:
    alone, beside = AdaptiveSampler(INTERVAL, {}), AdaptiveSampler(INTERVAL, {})
    alone.set_requests({"m": REQUEST})
    beside.set_requests({"m": SamplingRequest(0.9, 10_000, all_values=True)})
    thinned, _ = collected(alone, walk())
    whole, skipped = collected(beside, walk())
    assert (len(whole), skipped) == (SECONDS, 0)
    assert [point for point in whole if sampling_weight(point.labels or {})] == thinned


def test_sampler_sends_metrics_without_a_request_in_full() -> None:
    sampler = AdaptiveSampler(INTERVAL, {})
    points = [Point(metric=name, entity="e", ts=0, value=1) for name in ("m", "n")]
    assert sampler.sample("c", points, 0) == points
    sampler.set_requests({"m": REQUEST})
    for now in range(1000, 6000, 1000):
        sampler.sample("c", points, now)
    assert not sampler.skips("c", 6000), "another metric is collected with it"
    assert {point.metric for point in sampler.sample("c", points, 6000)} <= {"m", "n"}
    sampler.set_requests({})
    assert sampler.sample("c", points, 6100) == points


def test_sampler_samples_again_after_the_clock_was_set_back() -> None:
    sampler = AdaptiveSampler(INTERVAL, {})
    sampler.set_requests({"m": REQUEST})
    collected(sampler, [1.0] * 30)
    later = [Point(metric="m", entity="e", ts=5, value=1)]
    assert not sampler.skips("c", 5)
    assert sampler.sample("c", later, 5)


def test_requests_of_insights_do_not_override_those_of_the_settings() -> None:
    sampler = AdaptiveSampler(INTERVAL, {"m*": SamplingRequest(0.8, 5000)})
    sampler.set_requests({"m": SamplingRequest(0.9, 100_000, all_values=True)})
    sent, _ = collected(sampler, [1.0] * 60)
    assert len(sent) < 30
    assert max(sampling_weight(point.labels or {}) for point in sent) == 5


def test_sampler_passes_points_of_adaptive_sources_unchanged() -> None:
    sampler = AdaptiveSampler(INTERVAL, {"*": REQUEST})
    point = Point(metric="m", entity="e", ts=0, value=1, labels={"holds_ms": 5, "every_ms": 1})
    assert sampler.sample("c", [point], 0) == sampler.sample("c", [point], 100) == [point]


@pytest.mark.parametrize("text", ["cpu", "=0.9", "cpu=1", "cpu=high", "cpu=0"])
def test_parse_confidences_rejects_other_forms(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form METRIC=CONFIDENCE"):
        parse_confidences(text)


def test_sampling_weight_is_bounded() -> None:
    assert sampling_weight({"holds_ms": 1e300, "every_ms": 1}) == MAX_WEIGHT
