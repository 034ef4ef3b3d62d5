"""Pages of the series that a /list selects, in the order of site and series."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa

from mistbow.client.agent_model import ListAnswer, Missing, ReplicaSource
from mistbow.clock import Clock
from mistbow.fabric import Site
from storage_agent.http.cursors import PageKey
from storage_agent.http.points import ListBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import decode_series
from storage_agent.membership.scatter_gather import resolve_sites
from storage_agent.series import Metadata, Series
from storage_agent.timeseries.metadata_columns import METADATA_COLUMNS, SERIES_FIELDS, columns_of
from storage_agent.timeseries.multi_site_pages import check_site, sites_after
from storage_agent.timeseries.point_queries import name_set, series_filter
from storage_agent.timeseries.selection import describe, description_of
from storage_agent.timeseries.series_order import SeriesOrder
from storage_agent.timeseries.series_queries import Row, encode_list, metadata_source
from storage_agent.work_threads import in_thread_if_many

_BATCH_SERIES = 5_000
"""The number of series that are converted to rows at once: meanwhile no other thread runs."""


@dataclass(frozen=True, slots=True)
class SeriesPage:
    """A page of series; ``next``: the key of the last series; None: this is the last page.

    ``nodes``: pairs of a node and the series of this node. ``fields``: the names of the metadata
    fields to return; empty: all fields.
    """

    nodes: Sequence[tuple[str, Sequence[Row]]]
    fields: frozenset[str]
    next: PageKey | None
    replicas: tuple[ReplicaSource, ...] = ()
    missing: tuple[Missing, ...] = ()

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.nodes)

    def to_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the series as rows of the schema that ``row_schema`` returns."""
        schema = row_schema(self.fields)
        for node, series in self.nodes:
            for begin in range(0, len(series), _BATCH_SERIES):
                some = series[begin : begin + _BATCH_SERIES]
                rows = [_row(node, each, schema.names[3:]) for each in some]
                yield pa.RecordBatch.from_pylist(rows, schema)

    def to_json(self, cursor: str | None) -> Iterator[bytes]:
        """Yield the JSON answer; ``cursor``: the cursor of the next page, if there is one."""
        rest = ListAnswer((), self.replicas, self.missing, cursor)
        return encode_list(self.nodes, self.fields, rest)


def row_schema(fields: frozenset[str]) -> pa.Schema:
    """Return the schema of the rows of a /list with the given ``fields``; empty: all fields."""
    metadata = [pa.field(name, METADATA_COLUMNS[name][0]) for name in columns_of(fields)]
    return pa.schema([pa.field("node", pa.string(), nullable=False), *SERIES_FIELDS, *metadata])


@dataclass(frozen=True, slots=True)
class SeriesPages:
    """Reads the pages of the answer to one /list, from data of this agent.

    ``order``: the series of this site that the body selects.
    """

    body: ListBody
    node: str
    order: SeriesOrder
    membership: FabricMembership
    clock: Clock

    async def read(self, after: PageKey | None, limit: int) -> SeriesPage:
        """Return the page of ``limit`` series after the series ``after``."""
        sites, missing = self._sites(after)
        nodes: list[tuple[str, Sequence[Row]]] = []
        replicas: list[ReplicaSource] = []
        left, key = limit, None
        for site in sites:
            begin = after.series if after is not None and after.site == site.name else None
            rows = await self._rows_of(site, begin, left + 1)
            if rows is None:
                reason = "this agent has not received the site's metadata yet"
                missing = (*missing, Missing(site.node, reason))
                continue
            if site.name != self.membership.site and not site.reachable:
                replicas.append(metadata_source(site, self.membership, self.clock()))
            if rows[:left]:
                nodes.append((site.node, rows[:left]))
                last = PageKey(site.name, rows[:left][-1][:2])
            if len(rows) > left:
                key = last
                break
            left -= len(rows)
        return SeriesPage(nodes, name_set(self.body.fields), key, tuple(replicas), missing)

    def _sites(self, after: PageKey | None) -> tuple[list[Site], tuple[Missing, ...]]:
        own = self.membership.site
        if self.body.nodes is None:
            check_site(after, own)
            here = [Site(name=own, node=self.node, url="")]
            return sites_after(here, after), ()
        sites, unknown = resolve_sites(name_set(self.body.nodes), self.membership)
        return sites_after(sites, after), unknown if after is None else ()

    async def _rows_of(self, site: Site, after: Series | None, count: int) -> list[Row] | None:
        """Return the first series of a site; None: this agent lacks the metadata of the site."""
        if site.name == self.membership.site:
            rows: list[Row] = []
            async for some in self.order.after(after):
                page = some.part(0, count - len(rows))
                rows += await in_thread_if_many(len(page), partial(list, page.rows()))
                if len(rows) == count:
                    break
            return rows
        facts = self.membership.facts_of(site.name)
        if not facts:
            return None
        events, matches = facts.series_events(), series_filter(self.body)
        return await asyncio.to_thread(self._published, events, matches, after, count)

    def _published(
        self,
        events: list[tuple[str, str]],
        matches: Callable[[Metadata], bool],
        after: Series | None,
        count: int,
    ) -> list[Row]:
        published = decode_series(
            events, name_set(self.body.metricID), name_set(self.body.entityID)
        )
        later = (
            (series, metadata)
            for series, metadata in published
            if (after is None or series > after) and matches(metadata)
        )
        first = heapq.nsmallest(count, later, key=itemgetter(0))
        return [(*series, description_of(metadata)) for series, metadata in first]


def _row(node: str, series: Row, columns: Sequence[str]) -> dict[str, Any]:
    metadata = describe(*series)
    row = {"node": node, "metric": series[0], "entity": series[1]}
    return row | {name: METADATA_COLUMNS[name][1](metadata) for name in columns}
