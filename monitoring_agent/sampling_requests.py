"""The sampling requests that a monitoring agent obeys: from its settings and from enablers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from mistbow.sampling.adaptive import SamplingRequest, merge_requests


def parse_confidences(text: str) -> dict[str, float]:
    """Return pattern of metric names -> confidence, from a text of the form ``PATTERN=NUMBER,…``.

    Raises ``ValueError`` if the text has another form, or a confidence is not between 0 and 1.

    >>> parse_confidences("cpu.*=0.9, memory.util=0.95")
    {'cpu.*': 0.9, 'memory.util': 0.95}
    """
    confidences = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        pattern, _, confidence = part.rpartition("=")
        try:
            confidences[pattern.strip()] = float(confidence)
        except ValueError:
            pattern = ""
        if not pattern.strip() or not 0 < confidences[pattern.strip()] < 1:
            raise ValueError(
                f"{part!r} is not of the form METRIC=CONFIDENCE with a confidence between 0 and 1, "
                "such as cpu.*=0.9"
            )
    return confidences


def requests_of(attributes: Mapping[str, Any]) -> dict[str, SamplingRequest]:
    """Return metric -> the request that satisfies the requests of all enablers for this metric.

    ``attributes``: the attributes of a site's stream ``sampling``, which has one attribute for each
    enabler. Invalid attributes are ignored.
    """
    merged: dict[str, SamplingRequest] = {}
    for attribute in attributes.values():
        try:
            requests = msgspec.convert(attribute, dict[str, SamplingRequest])
        except msgspec.ValidationError:
            continue
        valid = {metric: each for metric, each in requests.items() if 0 < each.confidence < 1}
        merged = merge_requests(merged, valid)
    return merged
