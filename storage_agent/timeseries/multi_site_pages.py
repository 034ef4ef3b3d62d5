"""Pages of a /get over several sites, which are read one after the other, in the order of names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from mistbow.client.agent_model import Missing, ReplicaSource
from mistbow.errors import InvalidRequestError
from mistbow.fabric import Site
from mistbow.streams.json_numbers import from_json
from storage_agent.http.cursors import PageKey, decode_cursor, encode_cursor
from storage_agent.http.points import GET, MAX_PAGE, PagedBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.scatter_gather import ScatterRequest, resolve_sites, scatter
from storage_agent.series import Series, series_of
from storage_agent.timeseries.grouped_points import SeriesSlice
from storage_agent.timeseries.multi_site_get import ReplicaReads
from storage_agent.timeseries.point_pages import (
    NodePoints,
    PageReader,
    PointPage,
    SitePage,
    count_points,
    cut_series,
)
from storage_agent.timeseries.point_queries import name_set


class _Item(msgspec.Struct, frozen=True, kw_only=True, rename={"at": "from"}):
    node: str
    data: list[dict[str, Any]]
    at: str | None = None
    stale_ms: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    """The answer of an agent; ``next``: UNSET in a whole answer, which has no pages.

    Whole answers come from replicas, and from agents of older versions.
    """

    monitoring: list[_Item]
    missing: tuple[Missing, ...] = ()
    next: str | UnsetType | None = UNSET


_ANSWER = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class PointPages:
    """Reads the pages of the answer to one /get.

    ``local``: reads the points of this node.
    """

    body: PagedBody
    membership: FabricMembership
    local: PageReader
    replicas: ReplicaReads

    async def read(self, after: PageKey | None, limit: int) -> PointPage:
        """Return the page of about ``limit`` points after the point ``after``.

        Points of one series with equal times are in one page, so a page can exceed ``limit``.
        """
        sites, missing = self._sites(after)
        if after is None and self.body.nodes is None:
            await self.replicas.count_read(self.body)
        nodes: list[NodePoints] = []
        left = limit
        for number, site in enumerate(sites):
            page = await self._read_site(site, _within(after, site), left)
            nodes += page.nodes
            missing = (*missing, *page.missing)
            left -= count_points(page.nodes)
            if page.last is not None:
                return PointPage(nodes, PageKey(site.name, *page.last), missing)
            if left <= 0 and number + 1 < len(sites):
                return PointPage(nodes, PageKey(site.name), missing)
        return PointPage(nodes, None, missing)

    def _sites(self, after: PageKey | None) -> tuple[list[Site], tuple[Missing, ...]]:
        """Return (the sites to read, in order, unknown names in the body)."""
        own = self.membership.site
        if self.body.nodes is None:
            check_site(after, own)
            names = frozenset({own})
        else:
            names = name_set(self.body.nodes)
        sites, unknown = resolve_sites(names, self.membership)
        if self.body.nodes is None:
            # A node of another site may have the name of this site.
            sites = [site for site in sites if site.name == own]
        return sites_after(sites, after), unknown if after is None else ()

    async def _read_site(
        self, site: Site, after: tuple[Series, int] | None, limit: int
    ) -> SitePage:
        if site.name == self.membership.site:
            return await self.local.read(after, limit)
        alone = msgspec.structs.replace(self.body, nodes=None, limit=None, cursor=None)
        key = None if after is None else PageKey(site.name, *after)
        paged = msgspec.structs.replace(
            alone,
            limit=min(limit, MAX_PAGE),
            cursor=None if key is None else encode_cursor(key, GET, alone),
        )
        request = ScatterRequest(
            path=GET,
            body=msgspec.json.encode(paged),
            local=_never_local,
            decode=_page_decoder(alone, after, limit),
            failover=self.replicas.failover(alone),
        )
        answers = await scatter({site.name}, self.membership, request)
        nodes = [node for page in answers.found for node in page.nodes]
        missing = tuple(each for page in answers.found for each in page.missing)
        lasts = [page.last for page in answers.found if page.last is not None]
        return SitePage(nodes, lasts[0] if lasts else None, missing + answers.missing)


def sites_after(sites: list[Site], after: PageKey | None) -> list[Site]:
    """Return the sites of the items after the item ``after``, in order."""
    ordered = sorted(sites, key=lambda site: site.name)
    if after is None:
        return ordered
    return [
        site
        for site in ordered
        if site.name > after.site or (site.name == after.site and after.series is not None)
    ]


def check_site(after: PageKey | None, own: str) -> None:
    """Raise ``InvalidRequestError`` if a cursor belongs to a request to another site's agent."""
    if after is not None and after.site != own:
        raise InvalidRequestError(
            f"cursor: the cursor belongs to a request to the site {after.site}",
            hint=f"Send ?site={after.site}, or omit the cursor.",
        )


def _within(after: PageKey | None, site: Site) -> tuple[Series, int] | None:
    if after is None or after.site != site.name or after.series is None:
        return None
    return after.series, after.ts or 0


def _page_decoder(
    body: PagedBody, after: tuple[Series, int] | None, limit: int
) -> Callable[[bytes], SitePage]:
    """Return a function that decodes an answer; the function cuts a page from a whole answer."""

    def decode(content: bytes) -> SitePage:
        answer = _ANSWER.decode(content)
        if answer.next is UNSET:
            return _cut(answer, after, limit)
        nodes = [_node_points(item) for item in answer.monitoring]
        key = decode_cursor(
            GET, msgspec.structs.replace(body, limit=limit, cursor=answer.next or None)
        )
        last = None
        if key is not None and key.series is not None and key.ts is not None:
            last = (key.series, key.ts)
        return SitePage(nodes, last, answer.missing)

    return decode


def _cut(answer: _Answer, after: tuple[Series, int] | None, limit: int) -> SitePage:
    """Return a page of a whole answer; several items of the answer may have the same node."""
    nodes = [_node_points(item) for item in answer.monitoring]
    of_item = {
        series_of(each.metadata): number
        for number, node in enumerate(nodes)
        for each in node.series
    }
    series = [each for node in nodes for each in node.series]
    selected, has_more = cut_series(
        sorted(series, key=lambda each: series_of(each.metadata)), after, limit
    )
    parts = [
        NodePoints(
            node.node,
            [each for each in selected if of_item[series_of(each.metadata)] == number],
            node.replica,
        )
        for number, node in enumerate(nodes)
    ]
    last = None
    if has_more:
        last = series_of(selected[-1].metadata), int(selected[-1].times[-1])
    return SitePage([part for part in parts if part.series], last, answer.missing)


def _node_points(item: _Item) -> NodePoints:
    series = [
        SeriesSlice(
            {name: value for name, value in each.items() if name != "values"},
            np.array([value["timestamp"] for value in each["values"]], np.int64),
            np.array([from_json(value["val"]) for value in each["values"]], np.float64),
        )
        for each in item.data
    ]
    replica = None
    if item.at is not None:
        replica = ReplicaSource(node=item.node, at=item.at, stale_ms=item.stale_ms)
    return NodePoints(item.node, series, replica)


async def _never_local() -> bytes:
    raise AssertionError("this node answers without a request")
