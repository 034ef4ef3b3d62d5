"""Which series a copy or a restriction is about."""

from collections.abc import Mapping
from functools import lru_cache, reduce
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from storage_agent.monitoring.bodies import Id, Text
from storage_agent.monitoring.catalogue import Catalogue, Metadata, series_of
from storage_agent.streams.columns import Keys, is_in

_Ids = Annotated[tuple[Id, ...], Meta(max_length=1000)]
_Texts = Annotated[tuple[Text, ...], Meta(min_length=1, max_length=1000)]


class SeriesFilter(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Series of these metrics, entities and groups, and points with these labels.

    Several values of one are alternatives; all that are given must hold; none is everything.
    ``labels`` are a point's own and those of its node, as in ``BY`` and ``WHEN``.
    """

    metric: _Ids = ()
    entity: _Ids = ()
    group: _Ids = ()
    labels: Annotated[Mapping[Id, _Texts], Meta(max_length=64)] = {}

    @property
    def all(self) -> bool:
        """Whether every series is meant."""
        return not (self.metric or self.entity or self.group or self.labels)


EVERYTHING = SeriesFilter()


def text_of(wanted: SeriesFilter) -> str:
    """Return a filter as JSON, the same for filters that mean the same."""
    return msgspec.json.encode(
        SeriesFilter(
            metric=tuple(sorted(set(wanted.metric))),
            entity=tuple(sorted(set(wanted.entity))),
            group=tuple(sorted(set(wanted.group))),
            labels={name: tuple(sorted(set(values))) for name, values in wanted.labels.items()},
        ),
        order="deterministic",
    ).decode()


def covers(wider: SeriesFilter, narrower: SeriesFilter) -> bool:
    """Tell whether all that one filter can mean is meant by another too."""
    pairs = [
        (wider.metric, narrower.metric),
        (wider.entity, narrower.entity),
        (wider.group, narrower.group),
        *((values, narrower.labels.get(name, ())) for name, values in wider.labels.items()),
    ]
    return all(not wide or (narrow and set(narrow) <= set(wide)) for wide, narrow in pairs)


def may_overlap(one: SeriesFilter, other: SeriesFilter) -> bool:
    """Tell whether a point can be meant by both filters."""
    pairs = ((one.metric, other.metric), (one.entity, other.entity))
    return all(not a or not b or not set(a).isdisjoint(b) for a, b in pairs)


def surely_holds(wanted: SeriesFilter, metadata: Metadata) -> bool:
    """Tell whether every point of a series is meant; what a point's labels are is not known."""
    return not wanted.labels and may_hold(wanted, metadata)


def may_hold(wanted: SeriesFilter, metadata: Metadata) -> bool:
    """Tell whether a point of a series can be meant."""
    metric, entity = series_of(metadata)
    asked = (
        (wanted.metric, metric),
        (wanted.entity, entity),
        (wanted.group, metadata.get("group")),
    )
    return all(not values or told in values for values, told in asked)


def among(wanted: SeriesFilter, rows: pa.RecordBatch, catalogue: Catalogue) -> pa.Array:
    """Return of each point, a row of the schema ``POINTS``, whether it is meant."""
    parts = []
    if wanted.metric:
        parts.append(is_in(rows["metric"], pa.array(wanted.metric, pa.string())))
    if wanted.entity:
        parts.append(is_in(rows["entity"], pa.array(wanted.entity, pa.string())))
    if wanted.labels:
        parts.append(_labelled(rows["attributes"], wanted.labels))
    if wanted.group:
        parts.append(_grouped(rows, wanted.group, catalogue))
    return reduce(pc.and_, parts) if parts else pa.repeat(pa.scalar(True), rows.num_rows)


def _grouped(rows: pa.RecordBatch, groups: tuple[str, ...], catalogue: Catalogue) -> pa.Array:
    """Tell what is of a group: a point that says so, or whose series said so at another time."""
    named = _labelled(rows["attributes"], {"group": groups})
    members = {series for series, told in catalogue.all() if told.get("group") in groups}
    if not members:
        return named
    return pc.or_(named, Keys(members).among([rows["metric"], rows["entity"]]))


def _labelled(column: pa.Array, labels: Mapping[str, tuple[str, ...]]) -> pa.Array:
    # Each word is looked at once, however many rows have it.
    words = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    fits = [_fits(word, labels) for word in words.dictionary.to_pylist()]
    return pa.array(fits, pa.bool_()).take(words.indices)


def _fits(word: str, labels: Mapping[str, tuple[str, ...]]) -> bool:
    told = _read(word)
    return all(told.get(name) in values for name, values in labels.items())


@lru_cache(maxsize=10_000)
def _read(word: str) -> dict[str, str]:
    attributes: dict[str, Any] = msgspec.json.decode(word)
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in attributes.items()
    }
