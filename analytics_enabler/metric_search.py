"""The search for metrics by their metadata, entities and sites, page by page."""

import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from analytics.metric_models import FoundMetric, FoundSeries, LatestPoint, Metrics, SeriesPage
from mistbow.client.agent_model import NodeData, Series
from mistbow.errors import InvalidRequestError

MAX_ENTITIES = 20
"""The maximum number of entities that a found metric lists."""

MAX_LABEL_VALUES = 10
_DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class MetricFilter:
    """The conditions of a search; an empty condition is satisfied by all metrics.

    ``words``: each must occur in the id, the name, the description, the group, the units, an
    attribute, the type of an entity or an entity, in upper or lower case. ``prefix``: the entity
    prefix of the token of the caller. ``metrics``: the only metrics that are searched.
    """

    metric: str | None = None
    entity: str | None = None
    site: str | None = None
    words: tuple[str, ...] = ()
    prefix: str = ""
    metrics: frozenset[str] | None = None

    def accepts(self, series: Series, site: str) -> bool:
        """Return whether a series satisfies the conditions on its metric, entity and site."""
        return (
            series.entity.startswith(self.prefix)
            and self.metric in (None, series.metric)
            and (self.metrics is None or series.metric in self.metrics)
            and self.entity in (None, series.entity)
            and self.site in (None, site)
        )


@dataclass(slots=True)
class _MetricEntry:
    first: Series
    entities: set[str] = field(default_factory=set)
    entity_types: set[str] = field(default_factory=set)
    sites: set[str] = field(default_factory=set)


def find_metrics(
    nodes: Iterable[NodeData],
    site_of: Mapping[str, str],
    metric_filter: MetricFilter,
    cursor: str | None,
    limit: int,
    attributes: Mapping[str, str] = MappingProxyType({}),
) -> Metrics:
    """Return a page of the metrics that satisfy a filter, without their labels.

    ``site_of``: node -> site. ``cursor``: ``next`` of the page before; None: the first page.
    ``attributes``: metric -> the names and values of its attributes, in lower case. Raises
    ``InvalidRequestError`` if the cursor is not the cursor of a page.
    """
    last = None if cursor is None else _decode_cursor(cursor)
    found: dict[str, _MetricEntry] = {}
    missing = set()
    for node in nodes:
        site = site_of.get(node.node, node.node)
        if node.missing is not None:
            missing.add(site)
        for series in node.data:
            if metric_filter.accepts(series, site):
                entry = found.setdefault(series.metric, _MetricEntry(series))
                entry.entities.add(series.entity)
                entry.sites.add(site)
                if series.entity_type is not None:
                    entry.entity_types.add(series.entity_type)
    words = [word.casefold() for word in metric_filter.words]
    matching = sorted(
        name for name, each in found.items() if _matches(each, words, attributes.get(name, ""))
    )
    rest = matching if last is None else [name for name in matching if name > last]
    page = rest[:limit]
    return Metrics(
        metrics=[_shown(found[name]) for name in page],
        next=_encode_cursor(page[-1]) if len(rest) > limit else None,
        total=len(matching),
        missing_sites=sorted(missing),
    )


def find_series(
    nodes: Iterable[NodeData],
    site_of: Mapping[str, str],
    metric_filter: MetricFilter,
    skipped: int,
    limit: int,
) -> SeriesPage:
    """Return a page of series; ``skipped``: the number of series before the page."""
    found = sorted(
        _series(nodes, site_of, metric_filter), key=lambda each: (each.site, each.entity)
    )
    page = found[skipped : skipped + limit]
    after = skipped + len(page)
    return SeriesPage(
        series=page, next=str(after) if after < len(found) else None, total=len(found)
    )


def some_of(labels: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return the attributes, each with the first of its values."""
    return {name: sorted(labels[name])[:MAX_LABEL_VALUES] for name in sorted(labels)}


def _encode_cursor(metric: str) -> str:
    """Return the cursor of the page after a metric, with a digest that shows damages."""
    name = metric.encode()
    return urlsafe_b64encode(_digest(name) + name).rstrip(b"=").decode()


def _decode_cursor(cursor: str) -> str:
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except ValueError:
        data = b""
    name = data[_DIGEST_BYTES:]
    if data[:_DIGEST_BYTES] != _digest(name):
        raise InvalidRequestError("cursor: the value is not the `next` of a page")
    return name.decode()


def _digest(name: bytes) -> bytes:
    return blake2b(name, digest_size=_DIGEST_BYTES).digest()


def _series(
    nodes: Iterable[NodeData], site_of: Mapping[str, str], metric_filter: MetricFilter
) -> Iterator[FoundSeries]:
    for node in nodes:
        site = site_of.get(node.node, node.node)
        for series in node.data:
            if metric_filter.accepts(series, site):
                yield FoundSeries(
                    entity=series.entity,
                    entity_type=series.entity_type,
                    site=site,
                    node=node.node,
                    latest=_latest(series),
                )


def _latest(series: Series) -> LatestPoint | None:
    if not series.values:
        return None
    point = series.values[-1]
    return LatestPoint(ts=point.ts, value=point.value if math.isfinite(point.value) else None)


def _matches(found: _MetricEntry, words: Iterable[str], attributes: str) -> bool:
    first = found.first
    texts = (first.metric, first.name, first.desc, first.group, first.units, *found.entity_types)
    text = "\n".join(filter(None, texts)).casefold()
    return all(
        word in text
        or word in attributes
        or any(word in entity.casefold() for entity in found.entities)
        for word in words
    )


def _shown(found: _MetricEntry) -> FoundMetric:
    first = found.first
    return FoundMetric(
        metric=first.metric,
        name=first.name,
        units=first.units,
        desc=first.desc,
        group=first.group,
        min=first.min_val,
        max=first.max_val,
        entity_types=sorted(found.entity_types),
        entities=sorted(found.entities)[:MAX_ENTITIES],
        entity_count=len(found.entities),
        sites=sorted(found.sites),
        labels={},
    )
