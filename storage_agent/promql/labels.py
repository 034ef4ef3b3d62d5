"""Labels of series as PromQL knows them, made of what Mistbow says of points and results."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mistbow.sampling.adaptive import EVERY, HOLDS

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted, no value empty: what identifies a series."""

NAME = "__name__"
RAW_NAME = "metricID"
"""Has the name of a metric as it was posted, where Prometheus could not spell it."""

INSIGHT = "insight:"
"""Begins the name of the results of an insight."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NOT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_NOT_IN_METRIC = re.compile(r"[^a-zA-Z0-9_:]")
_SHORT = {"pod.name": "pod", "container.name": "container"}


def make_labels(pairs: Mapping[str, str]) -> Labels:
    """Return labels of names and values."""
    return tuple(sorted((name, value) for name, value in pairs.items() if value))


def is_label_name(text: str) -> bool:
    """Tell whether a text can name a label."""
    return _LABEL.fullmatch(text) is not None


def label_name(text: str) -> str:
    """Return the label that an attribute becomes.

    >>> label_name("pod.uuid"), label_name("pod.name"), label_name("5th")
    ('pod_uuid', 'pod', '_5th')
    """
    return _spelled(_SHORT.get(text, text), _NOT_IN_LABEL)


def metric_name(text: str) -> str:
    """Return the name that a metric becomes.

    >>> metric_name("cpu load"), metric_name("node:load5")
    ('cpu_load', 'node:load5')
    """
    return _spelled(text, _NOT_IN_METRIC)


def point_labels(metric: str, attributes: str) -> Labels:
    """Return the labels of points of a metric with these attributes (JSON).

    How long a point stands is said of the point, not of its series.

    >>> point_labels("m", '{"entityID": "e", "every_ms": 1000, "holds_ms": 3000}')
    (('__name__', 'm'), ('entityID', 'e'))
    """
    own = msgspec.json.decode(attributes)
    told = {name: value for name, value in own.items() if name not in (HOLDS, EVERY)}
    return _named(metric_name(metric), metric, _labels(told))


def result_labels(insight: str, key: str) -> Labels:
    """Return the labels of an insight's (its uid: DEPLOYMENT/NAME/NUMBER) results for a key."""
    deployment, _, rest = insight.partition("/")
    name, _, generation = rest.rpartition("/")
    if not name:
        return _named(metric_name(INSIGHT + insight), INSIGHT + insight, _labels(_object(key)))
    own = {"deployment": deployment, "generation": generation}
    labels = own | _labels(_object(key))
    return _named(metric_name(INSIGHT + name), INSIGHT + insight, labels)


def text_of_number(value: float) -> str:
    """Return a number as Prometheus writes it.

    >>> [text_of_number(v) for v in (1.0, 0.1, 1e16, 1e21, 1e-7, float("inf"), -2.5e-05)]
    ['1', '0.1', '10000000000000000', '1e+21', '1e-07', '+Inf', '-0.000025']
    """
    if value == int(value) if abs(value) < 1e15 else False:
        return "-0" if value == 0 and str(value)[0] == "-" else str(int(value))
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    if "e" not in text or abs(value) >= 1e21 or abs(value) < 1e-6:
        return text
    return _plain(text)


def _plain(text: str) -> str:
    """Write a number without its exponent."""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, part = mantissa.partition(".")
    digits = whole + part
    point = len(whole) + int(exponent)
    sign = "-" if text[0] == "-" else ""
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits.ljust(point, '0')}"


def _spelled(text: str, not_in: re.Pattern[str]) -> str:
    made = not_in.sub("_", text)
    return f"_{made}" if not made or made[0].isdigit() else made


def _named(name: str, raw: str, labels: dict[str, str]) -> Labels:
    labels[NAME] = name
    if raw != name:
        labels[RAW_NAME] = raw
    return make_labels(labels)


def _labels(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Of attributes that become the same label, the one that is spelled so already counts."""
    ordered = sorted(attributes, key=lambda name: (label_name(name) == name, name))
    return {label_name(name): _text(attributes[name]) for name in ordered}


def _object(key: str) -> Mapping[str, Any]:
    try:
        decoded = msgspec.json.decode(key)
    except msgspec.DecodeError:
        return {"key": key}
    return decoded if isinstance(decoded, dict) else {"key": decoded}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode()
