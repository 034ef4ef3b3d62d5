"""The attributes of recent points, for checks, completions and the search of metrics.

A series has no attributes of its own, so a sample of the newest points of each site is read.
"""

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from analytics.plan.expressions import Scalar
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.semantics.checks.context import MAX_POINTS, PointAttributes, Values
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import monotonic_clock
from mistbow.errors import MistbowError
from mistbow.streams.schemas import RAW

MAX_AGE_MS = 10_000
MAX_SITES = 50
"""The maximum number of sites whose newest points are read."""

SAMPLED_POSITIONS = 20_000
"""The number of newest positions of a site's stream of points that are read at a time."""

MAX_VALUES = 200
"""The maximum number of values of an attribute that are remembered."""

MAX_ATTRIBUTES = 2_000
"""The maximum number of attributes, over all metrics, that are remembered."""

PATIENCE_S = 2.0
_COLUMNS = ["metric", "attributes"]

Attributes = Mapping[str, Collection[str]]
"""Attribute -> values."""

Sample = Mapping[tuple[str, str], PointAttributes]
"""(Metric, attributes as JSON) -> the attributes, of the different points of a site."""


class RecentAttributes:
    """The attributes of the newest points of all sites, read at most every ``MAX_AGE_MS``."""

    def __init__(self, agent: AsyncAgentClient, fabric_view: FabricView) -> None:
        self._agent = agent
        self._fabric_view = fabric_view
        self._lock = asyncio.Lock()
        self._read_at: int | None = None
        self._values: dict[str, dict[str, dict[str, Scalar]]] = {}
        """Metric -> attribute -> its values, by their JSON: in Python, 1 and true are equal."""
        self._all_values: Values = {}
        """Metric -> attribute -> its values; [] if there may be others."""
        self._by_metric: dict[str, dict[str, set[str]]] = {}
        """Metric -> attribute -> its values, as texts."""
        self._points: dict[str, dict[str, PointAttributes]] = {}
        """Metric -> the different attributes of its points, by their JSON, as read last."""
        self._words: dict[str, str] = {}

    async def names(self, max_age_ms: int = MAX_AGE_MS) -> frozenset[str]:
        """Return the names of the attributes of points.

        ``max_age_ms``: 0 includes the newest points. Sites that do not answer within ``PATIENCE_S``
        are omitted.
        """
        await self._refresh(max_age_ms)
        return frozenset(name for each in self._by_metric.values() for name in each)

    async def of(self, metric: str | None = None) -> Attributes:
        """Return the attributes of a metric's points; None: of all points."""
        await self._refresh()
        if metric is not None:
            return self._by_metric.get(metric, {})
        merged: dict[str, set[str]] = defaultdict(set)
        for attributes in self._by_metric.values():
            for name, values in attributes.items():
                merged[name] |= values
        return merged

    async def values(self) -> Values:
        """Return metric -> attribute -> all its values; [] if there may be others.

        The result is not changed by later readings, so threads may use it.
        """
        await self._refresh()
        return self._all_values

    async def words(self) -> Mapping[str, str]:
        """Return metric -> the names and values of its attributes in one text in lower case."""
        await self._refresh()
        return self._words

    async def metrics_with(self, name: str, value: str) -> frozenset[str]:
        """Return the metrics whose recent points have an attribute."""
        await self._refresh()
        return frozenset(
            metric
            for metric, attributes in self._by_metric.items()
            if value in attributes.get(name, ())
        )

    async def points(self, metrics: Iterable[str]) -> dict[str, list[PointAttributes]]:
        """Return metric -> the different attributes of its newest points."""
        await self._refresh()
        # In order, so that a text has the same warning again.
        found = {metric: sorted(self._points.get(metric, {}).items()) for metric in metrics}
        return {metric: [each for _, each in points] for metric, points in found.items()}

    async def _refresh(self, max_age_ms: int = MAX_AGE_MS) -> None:
        async with self._lock:
            now = monotonic_clock()
            if self._read_at is None or now - self._read_at >= max_age_ms:
                await self._read()
                self._read_at = now

    async def _read(self) -> None:
        fabric = self._fabric_view.fabric
        sites = [] if fabric is None else [each.name for each in fabric.sites if each.reachable]
        samples = (self._sample(site) for site in sites[:MAX_SITES])
        self._points = {}
        for rows in await asyncio.gather(*samples):
            for (metric, text), attributes in rows.items():
                self._add(metric, attributes)
                points = self._points.setdefault(metric, {})
                if len(points) < MAX_POINTS:
                    points[text] = attributes
        self._all_values = {
            metric: {
                name: [*values.values()] if len(values) < MAX_VALUES else []
                for name, values in known.items()
            }
            for metric, known in self._values.items()
        }
        self._by_metric = {
            metric: {name: {*map(_text, values.values())} for name, values in known.items()}
            for metric, known in self._values.items()
        }
        self._words = {
            metric: "\n".join([*known, *itertools.chain(*known.values())]).casefold()
            for metric, known in self._by_metric.items()
        }

    async def _sample(self, site: str) -> Sample:
        """Return the different attributes of a site's newest points."""
        agent = self._agent.at(site)
        try:
            async with asyncio.timeout(PATIENCE_S):
                head = (await agent.info(RAW)).head
                start = max(0, head - SAMPLED_POSITIONS)
                rows = await agent.read(RAW, start, head, columns=_COLUMNS)
        except (MistbowError, TimeoutError):
            return {}
        return attributes_in(rows.table)

    def _add(self, metric: str, attributes: PointAttributes) -> None:
        known = self._values.setdefault(metric, {})
        for name, value in attributes.items():
            if name not in known and sum(map(len, self._values.values())) >= MAX_ATTRIBUTES:
                continue
            values = known.setdefault(name, {})
            if len(values) < MAX_VALUES:
                values[json.dumps(value)] = value


def attributes_in(table: pa.Table) -> Sample:
    """Return the different attributes of the points in a table; each text is parsed once.

    The table may come from a stolen machine: rows without scalar attributes are omitted.
    """
    try:
        distinct = table.select(_COLUMNS).unify_dictionaries().combine_chunks()
        metrics, texts = (distinct[name].cast("string").to_pylist() for name in _COLUMNS)
    except (KeyError, pa.ArrowException):
        return {}
    parsed = {text: _parsed(text) for text in set(texts)}
    return {
        (metric, text): attributes
        for metric, text in zip(metrics, texts, strict=True)
        if metric is not None and (attributes := parsed[text]) is not None
    }


def _parsed(text: str | None) -> PointAttributes | None:
    """Return the attributes of a point from their JSON; None: it has another form."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or any(isinstance(each, list | dict) for each in found.values()):
        return None
    return {name: value for name, value in found.items() if value is not None}


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else json.dumps(value)
