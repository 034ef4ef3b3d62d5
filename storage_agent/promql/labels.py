"""The conversion of points' attributes and results' keys to the PromQL labels of series."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.sampling.adaptive import HOLDS_MS, INTERVAL_MS
from storage_agent.series import EXPORTED, merge_labels, remove_own_label
from storage_agent.settings import AgentSettings

Labels = tuple[tuple[str, str], ...]
"""The identity of a series in PromQL: its labels as pairs (name, non-empty value), sorted."""

Ints = npt.NDArray[np.int64]

NAME = "__name__"
RAW_NAME = "metricID"
"""The name of the label that contains a metric's original name.

A series has this label if the original name is not valid in Prometheus.
"""

ENTITY = "entityID"
"""The name of the label that contains the entity of a point."""

ORIGINAL_NAMES = "attributeNames"
"""The name of the label that distinguishes series whose other labels are equal.

The label lists the names of those attributes that other labels do not show under these names. A
query removes this label if its series differ without it.
"""

INSIGHT = "insight:"
"""The prefix of the metric names that the results of insights have in PromQL."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NOT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_NOT_IN_METRIC = re.compile(r"[^a-zA-Z0-9_:]")
_SEPARATOR = re.compile(r"[\\,=]")
_SHORT_NAMES = {"pod.name": "pod", "container.name": "container"}


def make_labels(pairs: Mapping[str, str]) -> Labels:
    """Return the labels in ``pairs`` (name -> value), without labels whose value is empty."""
    return tuple(sorted((name, value) for name, value in pairs.items() if value))


def sort_labels(labels: Sequence[Labels]) -> Ints:
    """Return the indices of the label sets in ascending order of the label sets.

    Unlike ``sorted``, Arrow lets other threads run.

    >>> sort_labels([(("a", "2"),), (("a", "1"), ("b", "1")), (("a", "1"),)]).tolist()
    [2, 1, 0]
    """
    # The separator is less than all other characters.
    texts = pa.array(["\0".join(chain.from_iterable(each)) for each in labels], pa.string())
    order: Ints = pc.sort_indices(texts).to_numpy().astype(np.int64)
    return order


def omit_original_names(series: Sequence[list[Labels]]) -> None:
    """Remove the label ``ORIGINAL_NAMES`` from all label sets, if the series differ without it.

    ``series``: the label sets of the series of a query, in several lists, which are changed.

    >>> one, other = (("a_b", "1"), (ORIGINAL_NAMES, "a.b")), (("a_b", "1"),)
    >>> omit_original_names(found := [[one], [one]])
    >>> found
    [[(('a_b', '1'),)], [(('a_b', '1'),)]]
    >>> omit_original_names(found := [[one], [other]])
    >>> found == [[one], [other]]
    True
    """
    if all(_position(labels) is None for each in series for labels in each):
        return
    shortened = {labels: _without_original_names(labels) for each in series for labels in each}
    if len({*shortened.values()}) == len(shortened):
        for each in series:
            for n, labels in enumerate(each):
                each[n] = shortened[labels]


def is_label_name(text: str) -> bool:
    """Return whether a text is a valid label name."""
    return _LABEL.fullmatch(text) is not None


def label_name(text: str) -> str:
    """Convert the name of an attribute to a valid label name.

    >>> label_name("pod.uuid"), label_name("pod.name"), label_name("5th")
    ('pod_uuid', 'pod', '_5th')
    """
    return _sanitize(_SHORT_NAMES.get(text, text), _NOT_IN_LABEL)


def metric_name(text: str) -> str:
    """Convert the name of a metric to a valid metric name of Prometheus.

    >>> metric_name("cpu load"), metric_name("node:load5")
    ('cpu_load', 'node:load5')
    """
    return _sanitize(text, _NOT_IN_METRIC)


@dataclass(frozen=True, slots=True)
class PointLabels:
    """Makes the labels of points.

    ``entity_labels``: the names of the labels in which senders of other protocols state the entity,
    such as ``instance``. ``cache``: attributes -> labels; None: nothing is remembered.
    """

    entity_labels: tuple[str, ...]
    cache: dict[str, dict[str, str]] | None = None

    def with_empty_cache(self) -> "PointLabels":
        """Return an equal object with an empty cache of the labels of attributes, for one query."""
        return PointLabels(self.entity_labels, {})

    @classmethod
    def of_settings(cls, settings: AgentSettings) -> "PointLabels":
        """Return the ``PointLabels`` for the entity labels in an agent's settings."""
        named = (settings.remote_write_entity, settings.influx_entity)
        return cls(tuple(name for name in dict.fromkeys(named) if name != ENTITY))

    def __call__(self, metric: str, attributes: str) -> Labels:
        """Return the labels of the points with a metric and attributes (a JSON object).

        Attributes that adaptive sampling adds are omitted, since they describe single points; these
        attributes are numbers. ``entityID`` is omitted if a label of the sender states the entity,
        ``group`` if its value equals the label ``job``, from which the agent takes a group. The
        labels of points with different attributes differ, by ``ORIGINAL_NAMES`` if not otherwise.

        >>> labels_of = PointLabels(("instance",))
        >>> labels_of("m", '{"entityID": "e", "every_ms": 1000, "holds_ms": 3000}')
        (('__name__', 'm'), ('entityID', 'e'))
        >>> labels_of("m", '{"entityID": "e", "instance": "e", "group": "g", "job": "g"}')
        (('__name__', 'm'), ('instance', 'e'), ('job', 'g'))
        """
        found = None if self.cache is None else self.cache.get(attributes)
        if found is None:
            found = self._labels_of(attributes)
            if self.cache is not None:
                self.cache[attributes] = found
        return _with_name(metric_name(metric), metric, found)

    def _labels_of(self, attributes: str) -> dict[str, str]:
        decoded = msgspec.json.decode(attributes)
        described = {
            name: value
            for name, value in decoded.items()
            if name not in (HOLDS_MS, INTERVAL_MS) or isinstance(value, str)
        }
        unusual = []
        entity = described.get(ENTITY)
        stated = [described[name] for name in self.entity_labels if name in described]
        if entity in stated or "" in stated:
            del described[ENTITY]
            if entity != next(filter(None, stated), described.get("node")):
                unusual.append(f"{ENTITY}={_escape(_text(entity))}")
        if described.get("job"):
            group = described.get("group")
            if described["job"] == group:
                # As for entityID, but here the sender's own label of this name gets its name back.
                described = remove_own_label(described, "group")
            else:
                unusual.append(f"group={_escape(_text(group))}")
        return _labels(described, unusual)


def result_labels(insight: str, key: str) -> Labels:
    """Return the labels of the results of an insight for one key.

    ``insight``: the uid of the insight, DEPLOYMENT/NAME/GENERATION. ``key``: the key as JSON.
    """
    deployment, _, rest = insight.partition("/")
    name, _, generation = rest.rpartition("/")
    if not name:
        return _with_name(metric_name(INSIGHT + insight), INSIGHT + insight, _labels(_object(key)))
    own = {"deployment": deployment, "generation": generation}
    labels = merge_labels(own, _labels(_object(key)))
    return _with_name(metric_name(INSIGHT + name), INSIGHT + insight, labels)


def format_number(value: float) -> str:
    """Return a number in Prometheus' format.

    >>> [format_number(v) for v in (1.0, 0.1, 1e16, 1e21, 1e-7, float("inf"), -2.5e-05)]
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
    return _without_exponent(text)


def format_decimal(value: float) -> str:
    """Return a number in decimal notation without an exponent, for the value of a label.

    >>> format_decimal(2.5e-07), format_decimal(1e21), format_decimal(float("nan"))
    ('0.00000025', '1000000000000000000000', 'NaN')
    """
    text = format_number(value)
    return _without_exponent(text) if "e" in text else text


def _without_exponent(text: str) -> str:
    """Convert a number in exponent notation to decimal notation."""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, part = mantissa.partition(".")
    digits = whole + part
    point = len(whole) + int(exponent)
    sign = "-" if text[0] == "-" else ""
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits.ljust(point, '0')}"


def _sanitize(text: str, invalid: re.Pattern[str]) -> str:
    name = invalid.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def _with_name(name: str, raw: str, labels: dict[str, str]) -> Labels:
    # Matchers would take a sender's label of this name for the original name.
    if raw != name or RAW_NAME in labels:
        labels = merge_labels({RAW_NAME: raw}, labels)
    return make_labels({**labels, NAME: name})


def _labels(attributes: Mapping[str, Any], unusual: Sequence[str] = ()) -> dict[str, str]:
    """Convert attributes to labels.

    If several attributes would get the same label name, the attribute with exactly this name gets
    the label name, and the label names of the other attributes get the prefix ``exported_``.
    ``unusual``: attributes that the labels do not show, as NAME=VALUE, for ``ORIGINAL_NAMES``.
    """
    texts = {name: text for name, value in attributes.items() if (text := _text(value))}
    labels = {name: text for name, text in texts.items() if label_name(name) == name}
    originals = [*unusual]
    if len(labels) < len(texts):
        # The other names that may be due to the prefix, so that each label has one original name.
        originals += [_escape(name) for name in labels if name.startswith(EXPORTED)]
    for name in sorted(texts.keys() - labels.keys()):
        free = label_name(name)
        while free in labels:
            free = EXPORTED + free
        labels[free] = texts[name]
        originals.append(_escape(name))
    return merge_labels({ORIGINAL_NAMES: ",".join(sorted(originals)), NAME: ""}, labels)


def _position(labels: Labels) -> int | None:
    """Return the index of the label ``ORIGINAL_NAMES``; None: there is no such label."""
    found = bisect_left(labels, (ORIGINAL_NAMES, ""))
    return found if found < len(labels) and labels[found][0] == ORIGINAL_NAMES else None


def _without_original_names(labels: Labels) -> Labels:
    found = _position(labels)
    return labels if found is None else labels[:found] + labels[found + 1 :]


def _escape(text: str) -> str:
    return _SEPARATOR.sub(r"\\\g<0>", text)


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
