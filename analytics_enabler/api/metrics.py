"""Routes that search metrics, series and attributes."""

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Query

from analytics.metric_models import Attribute, Attributes, Metrics, SeriesPage
from analytics_enabler.attributes import RecentAttributes
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.metric_search import MetricFilter, find_metrics, find_series, some_of
from mistbow.auth.callers import current_caller
from mistbow.auth.rules import requires
from mistbow.client.agent_model import NodeData
from mistbow.errors import InvalidRequestError, UnavailableError
from mistbow.openapi import raises

MAX_LIMIT = 1000
MAX_SHOWN_VALUES = 100
MAX_SHOWN_NAMES = 100

Metric = Annotated[str | None, Query(description="Only this metric.")]
Entity = Annotated[str | None, Query(description="Only metrics or series of this entity.")]
Site = Annotated[str | None, Query(description="Only metrics or series at this site.")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The maximum number of items.")]
Cursor = Annotated[str | None, Query(description="The cursor `next` of the previous page.")]


def metrics_router(
    catalogue: DataCatalogue, attributes: RecentAttributes, fabric_view: FabricView
) -> APIRouter:
    """Return the routes ``/api/metrics``, ``/api/metrics/{metric}/series``, ``/api/attributes``."""
    router = APIRouter(prefix="/api", tags=["explore"])

    async def all_nodes() -> list[NodeData]:
        nodes = await catalogue.nodes()
        if nodes is None:
            raise UnavailableError(
                "the storage agent does not list its series", hint="Try again in some seconds."
            )
        return nodes

    @router.get("/metrics")
    @requires("read", by_entity=True)
    @raises(UnavailableError)
    async def search_metrics(
        metric: Metric = None,
        entity: Entity = None,
        site: Site = None,
        label: Annotated[
            str | None, Query(description="Only metrics with this attribute (KEY=VALUE).")
        ] = None,
        search: Annotated[
            str,
            Query(
                max_length=200,
                description="Words of the id, name, description, units, attributes or entities.",
            ),
        ] = "",
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Metrics:
        """Search metrics by metadata, entity, site and attributes, over all sites.

        A token with an entity prefix sees the metrics of its entities only, without their labels,
        which other entities may have. If a search by words or by an attribute finds nothing, the
        answer lists the names of the existing attributes.
        """
        prefix = current_caller().entity_prefix
        named = None if label is None else await _with_label(label, prefix)
        metric_filter = MetricFilter(metric, entity, site, tuple(search.split()), prefix, named)
        words = await attributes.words() if metric_filter.words and not prefix else {}
        nodes, sites = await all_nodes(), fabric_view.site_of_node
        page = await asyncio.to_thread(
            find_metrics, nodes, sites, metric_filter, cursor, limit, words
        )
        if prefix:
            return page
        if page.total == 0 and (metric_filter.words or label is not None):
            page.attributes = sorted(await attributes.of())[:MAX_SHOWN_NAMES]
        for each in page.metrics:
            each.labels = some_of(await attributes.of(each.metric))
        return page

    async def _with_label(label: str, prefix: str) -> frozenset[str]:
        """Return the metrics whose recent points have an attribute."""
        name, equals, value = label.partition("=")
        if not equals or prefix:
            raise InvalidRequestError(
                "label: write KEY=VALUE" if not prefix else "label: the token has an entity prefix",
                hint="Search by metric, entity or words instead.",
            )
        return await attributes.metrics_with(name, value)

    @router.get("/metrics/{metric:path}/series")
    @requires("read", by_entity=True)
    @raises(UnavailableError)
    async def list_series(
        metric: str,
        site: Site = None,
        entity: Entity = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> SeriesPage:
        """List the series of a metric, each with its latest point."""
        if cursor is not None and re.fullmatch("[0-9]{1,9}", cursor) is None:
            raise InvalidRequestError("cursor: the value is not the `next` of a page")
        metric_filter = MetricFilter(metric, entity, site, prefix=current_caller().entity_prefix)
        nodes, sites = await all_nodes(), fabric_view.site_of_node
        skipped = int(cursor or 0)
        return await asyncio.to_thread(find_series, nodes, sites, metric_filter, skipped, limit)

    @router.get("/attributes")
    @requires("read")
    async def list_attributes(metric: Metric = None) -> Attributes:
        """List the attributes of recent points, with their values, for BY and WHEN."""
        found = await attributes.of(metric)
        shown = [
            Attribute(
                name=name,
                values=sorted(values)[:MAX_SHOWN_VALUES],
                more=len(values) > MAX_SHOWN_VALUES,
            )
            for name, values in sorted(found.items())
        ]
        return Attributes(attributes=shown)

    return router
