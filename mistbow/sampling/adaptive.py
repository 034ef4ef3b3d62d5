"""Adaptive sampling: the requests to sources, and the labels of sampled points.

An adaptive source labels each point with ``holds_ms``, the time for which the value is valid, and
``every_ms``, the interval at which the source would measure without adaptive sampling. A point that
is sent although the source could have skipped the point has ``holds_ms`` 0. So the source alone
decides which values are skipped, and every reader and every replay uses the same weights.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

SAMPLING_STREAM = "sampling"
"""The stream of a site whose attributes contain the sampling requests: enabler -> requests.

The name of an enabler is its site, and its domain unless this is the default domain.
"""

HOLDS_MS = "holds_ms"
"""The label with the time (ms) for which a value is valid."""
INTERVAL_MS = "every_ms"
"""The label with the interval (ms) at which the source would measure without adaptive sampling."""

MAX_WEIGHT = 100
"""The greatest number of values that one sampled value represents."""

_MIN_SAMPLES_PER_WINDOW = 6


class SamplingRequest(
    msgspec.Struct,
    frozen=True,
    rename={"max_holds_ms": "longest_ms", "all_values": "whole"},
):
    """A request to sample a metric: the required confidence, and the longest validity of a value
    (ms).

    ``all_values``: whether to send all values; values that could have been skipped have
    ``holds_ms`` 0.
    """

    confidence: float
    max_holds_ms: int
    all_values: bool = False

    @classmethod
    def for_window(cls, confidence: float, window_ms: int) -> "SamplingRequest":
        """Return a request for several samples of each series in a window of ``window_ms``."""
        return cls(confidence, window_ms // _MIN_SAMPLES_PER_WINDOW)

    def __and__(self, other: "SamplingRequest") -> "SamplingRequest":
        """Return the request that satisfies both requests.

        >>> SamplingRequest(0.9, 1000) & SamplingRequest(0.8, 500, all_values=True)
        SamplingRequest(confidence=0.9, max_holds_ms=500, all_values=True)
        """
        return SamplingRequest(
            max(self.confidence, other.confidence),
            min(self.max_holds_ms, other.max_holds_ms),
            self.all_values or other.all_values,
        )


def merge_requests(
    one: Mapping[str, SamplingRequest], other: Mapping[str, SamplingRequest]
) -> dict[str, SamplingRequest]:
    """Return the merged requests of two maps: metric → the request that satisfies both maps'
    requests.
    """
    merged = dict(one)
    for metric, request in other.items():
        merged[metric] = merged[metric] & request if metric in merged else request
    return merged


def sampling_weight(labels: Mapping[str, Any]) -> int:
    """Return the number of values that a point with these labels represents.

    A point without valid sampling labels represents 1 value.

    >>> [sampling_weight({"holds_ms": each, "every_ms": 1000}) for each in (3000, 1000, 0, "long")]
    [3, 1, 0, 1]
    """
    holds, interval = labels.get(HOLDS_MS), labels.get(INTERVAL_MS)
    if not isinstance(holds, int | float) or not isinstance(interval, int | float):
        return 1
    if holds < 0 or interval <= 0:
        return 1
    return 0 if holds == 0 else min(max(1, round(holds / interval)), MAX_WEIGHT)
