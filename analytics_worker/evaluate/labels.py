"""Labels: the text of an attribute, taken from the latest point of each key.

Points are grouped by a *whole key*, which contains the attribute. The *label key* is the whole key
without the attribute. Among the whole keys with the same label key, the whole key with the latest
point supplies the label.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.expressions import Label, Scalar
from analytics_worker.evaluate.finalize import FunctionValues
from analytics_worker.evaluate.history.window_history import WindowHistory
from analytics_worker.evaluate.point_windows import EvaluationTime, WindowPoints
from analytics_worker.panes.predicates import is_number
from analytics_worker.panes.routing import key_of


@dataclass(frozen=True, slots=True)
class LatestPoint:
    """The latest point of a whole key at a time.

    ``tick``: this time (ms), a tick or the time of a point. ``ts``, ``value``: the time (ms) and
    the value of the latest point.
    """

    tick: int
    whole_key: str
    ts: int
    value: float


def latest_at_ticks(rows: pa.Table) -> Iterator[LatestPoint]:
    """Yield the latest point in each window (``WINDOWED``); the keys of windows are whole keys."""
    latest = rows["latest"].combine_chunks()
    columns = (pc.struct_field(latest, name).to_pylist() for name in ("ts", "value"))
    pairs = (rows[name].to_pylist() for name in ("tick", "key"))
    for tick, key, ts, value in zip(*pairs, *columns, strict=True):
        yield LatestPoint(tick, key, ts, value)


def latest_at_times(
    label: Label, window: WindowPoints, times: Sequence[EvaluationTime]
) -> Iterator[LatestPoint]:
    """Yield, for each evaluation time of a label key, the latest point of each of its whole keys.

    ``window``: the points of each whole key. A whole key without points in the window is omitted.
    """
    whole_keys: dict[tuple[int, str], list[str]] = defaultdict(list)
    for tick, whole_key in window.points:
        whole_keys[tick, _label_key(whole_key, label)].append(whole_key)
    for time in times:
        for whole_key in whole_keys.get((time.tick, time.key), ()):
            points = window.at(replace(time, key=whole_key))
            if points is not None:
                yield LatestPoint(time.ts, whole_key, int(points.ts[-1]), float(points.values[-1]))


def latest_of_history(
    label: Label, history: WindowHistory, times: Sequence[EvaluationTime]
) -> Iterator[LatestPoint]:
    """Yield, for each evaluation time of a label key, the latest point of each of its whole keys.

    ``history``: the points of each whole key.
    """
    whole_keys: dict[str, list[str]] = defaultdict(list)
    for whole_key in history.present_keys():
        whole_keys[_label_key(whole_key, label)].append(whole_key)
    pairs = [(time, whole_key) for time in times for whole_key in whole_keys.get(time.key, ())]
    merged = history.merge(
        [whole_key for _, whole_key in pairs],
        np.array([time.ts for time, _ in pairs], np.int64),
        np.array([time.tick for time, _ in pairs], np.int64),
    )
    columns = (merged.count.tolist(), merged.ts.tolist(), merged.value.tolist())
    for (time, whole_key), count, ts, value in zip(pairs, *columns, strict=True):
        if count:
            yield LatestPoint(time.ts, whole_key, ts, value)


def labels(label: Label, latest: Iterable[LatestPoint]) -> tuple[pa.Table, FunctionValues]:
    """Return a table with each tick and label key, and the value of the label for each row.

    The value is null if the latest point lacks an attribute of the label, or if the attribute is
    not of the label's kind. Of several points with the latest time, the point with the greatest
    value counts; among equal values, the first text counts.
    """
    best: dict[tuple[int, str], LatestPoint] = {}
    # Sorted by text, so that the first of equal points decides; null comes last.
    for point in sorted(latest, key=lambda one: _rank(one, label)):
        pair = point.tick, _label_key(point.whole_key, label)
        other = best.get(pair)
        if other is None or (point.ts, point.value) > (other.ts, other.value):
            best[pair] = point
    rows = pa.table(
        {
            "tick": pa.array([tick for tick, _ in best], pa.int64()),
            "key": pa.array([key for _, key in best], pa.string()),
        }
    )
    scalars = [_attributes(point.whole_key)[label.attribute] for point in best.values()]
    match label.value_kind:
        case "number":
            numbers = [each if is_number(each) else None for each in scalars]
            return rows, FunctionValues(pa.array(numbers, pa.float64()))
        case "text":
            texts = [each if isinstance(each, str) else None for each in scalars]
        case "boolean":
            texts = [_as_text(each) if isinstance(each, bool) else None for each in scalars]
        case _:
            texts = [_text(point, label) for point in best.values()]
    return rows, FunctionValues(pa.array(texts, pa.string()))


def _rank(point: LatestPoint, label: Label) -> tuple[bool, str, int]:
    """Return the sort key of a point among points with equal times and values."""
    text = _text(point, label)
    scalar = _attributes(point.whole_key)[label.attribute]
    by_type = 2 if isinstance(scalar, str) else 1 if isinstance(scalar, bool) else 0
    return text is None, text or "", by_type


def _label_key(whole_key: str, label: Label) -> str:
    return key_of(_attributes(whole_key), label.by)


def _text(point: LatestPoint, label: Label) -> str | None:
    """Return the attribute of a point as a text, or both attributes of a position.

    Return None if an attribute is missing. Numbers and booleans are written as in the language of
    insights.
    """
    attributes = _attributes(point.whole_key)
    text = _as_text(attributes[label.attribute])
    if not isinstance(label.longitude, str):
        return text
    longitude = _as_text(attributes[label.longitude])
    return None if text is None or longitude is None else f"{text},{longitude}"


def _as_text(value: Scalar | None) -> str | None:
    match value:
        case float() as number if number.is_integer():
            return str(int(number))
        case bool() as truth:
            return str(truth).lower()
        case None:
            return None
        case other:
            return str(other)


def _attributes(key: str) -> dict[str, Scalar | None]:
    return msgspec.json.decode(key, type=dict[str, Scalar | None])
