"""Filters with which copies and restrictions select series and points."""

from collections.abc import Mapping
from functools import lru_cache, reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.operation_model import SeriesFilter
from storage_agent.series import Metadata, series_of
from storage_agent.streams.columns import dictionary_encode, is_in
from storage_agent.timeseries.catalogue import Catalogue

EVERYTHING = SeriesFilter()


def canonical_text(series_filter: SeriesFilter) -> str:
    """Return a filter as canonical JSON, which is the same text for all equivalent filters."""
    return msgspec.json.encode(
        SeriesFilter(
            metric=tuple(sorted(set(series_filter.metric))),
            entity=tuple(sorted(set(series_filter.entity))),
            group=tuple(sorted(set(series_filter.group))),
            labels={
                name: tuple(sorted(set(values))) for name, values in series_filter.labels.items()
            },
        ),
        order="deterministic",
    ).decode()


def covers(wider: SeriesFilter, narrower: SeriesFilter) -> bool:
    """Return whether every point that matches ``narrower`` also matches ``wider``."""
    pairs = [
        (wider.metric, narrower.metric),
        (wider.entity, narrower.entity),
        (wider.group, narrower.group),
        *((values, narrower.labels.get(name, ())) for name, values in wider.labels.items()),
    ]
    return all(not wide or (narrow and set(narrow) <= set(wide)) for wide, narrow in pairs)


def may_overlap(one: SeriesFilter, other: SeriesFilter) -> bool:
    """Return whether some point may match both filters.

    Only metrics and entities are compared, not groups and labels.
    """
    pairs = ((one.metric, other.metric), (one.entity, other.entity))
    return all(not a or not b or not set(a).isdisjoint(b) for a, b in pairs)


def matches_all_points(series_filter: SeriesFilter, metadata: Metadata) -> bool:
    """Return whether a filter matches every point of a series, whatever labels the points have.

    ``metadata``: the metadata of the series.
    """
    return not series_filter.labels and may_match_points(series_filter, metadata)


def may_match_points(series_filter: SeriesFilter, metadata: Metadata) -> bool:
    """Return whether a filter may match some point of a series.

    The labels of the points are unknown, so the labels of the filter are ignored. ``metadata``: the
    metadata of the series.
    """
    metric, entity = series_of(metadata)
    fields = (
        (series_filter.metric, metric),
        (series_filter.entity, entity),
        (series_filter.group, metadata.get("group")),
    )
    return all(not values or value in values for values, value in fields)


def match_points(
    series_filter: SeriesFilter, rows: pa.RecordBatch, catalogue: Catalogue
) -> pa.Array:
    """Return a boolean array with one item for each row: whether the filter matches the point.

    ``rows``: rows of the schema ``POINTS``. ``catalogue``: contains the groups of the series.
    """
    masks = []
    if series_filter.metric:
        masks.append(is_in(rows["metric"], pa.array(series_filter.metric, pa.string())))
    if series_filter.entity:
        masks.append(is_in(rows["entity"], pa.array(series_filter.entity, pa.string())))
    if series_filter.labels:
        masks.append(_match_labels(rows["attributes"], series_filter.labels))
    if series_filter.group:
        masks.append(_match_groups(rows, series_filter.group, catalogue))
    return reduce(pc.and_, masks) if masks else pa.repeat(pa.scalar(True), rows.num_rows)


def _match_groups(rows: pa.RecordBatch, groups: tuple[str, ...], catalogue: Catalogue) -> pa.Array:
    """Return a boolean array with one item for each row: whether a group of the point matches.

    The groups of a point are its attribute ``group`` and the group of its series.
    """
    named = _match_labels(rows["attributes"], {"group": groups})
    metric, entity = (dictionary_encode(rows[name]) for name in ("metric", "entity"))
    width = max(1, len(entity.dictionary))
    codes = metric.indices.to_numpy().astype(np.int64) * width + entity.indices.to_numpy()
    distinct, inverse = np.unique(codes, return_inverse=True)
    metrics, entities = metric.dictionary.to_pylist(), entity.dictionary.to_pylist()
    pairs = ((metrics[code // width], entities[code % width]) for code in distinct.tolist())
    members = [_is_member(catalogue.description(*pair), groups) for pair in pairs]
    return pc.or_(named, pa.array(np.array(members, np.bool_)[inverse]))


@lru_cache(maxsize=10_000)
def _is_member(description: bytes | None, groups: tuple[str, ...]) -> bool:
    return description is not None and msgspec.json.decode(description).get("group") in groups


def _match_labels(column: pa.Array, labels: Mapping[str, tuple[str, ...]]) -> pa.Array:
    # Each distinct text is decoded once, however many rows have it.
    texts = dictionary_encode(column)
    matches = [_has_labels(text, labels) for text in texts.dictionary.to_pylist()]
    return pa.array(matches, pa.bool_()).take(texts.indices)


def _has_labels(text: str, labels: Mapping[str, tuple[str, ...]]) -> bool:
    attributes = _decode_attributes(text)
    return all(attributes.get(name) in values for name, values in labels.items())


@lru_cache(maxsize=10_000)
def _decode_attributes(text: str) -> dict[str, str]:
    attributes: dict[str, Any] = msgspec.json.decode(text)
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in attributes.items()
    }
