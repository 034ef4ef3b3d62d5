"""The JSON bodies of requests about points."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mistbow.client.agent_model import Point
from mistbow.client.fields import Count, Millis, Names

GET, LIST = "/get", "/list"

MAX_PAGE = 100_000
"""The maximum number of items in a page of an answer."""

_MAX_CURSOR_CHARACTERS = 8192


class PutBody(msgspec.Struct, frozen=True):
    """The body of a /put: the points to store."""

    monitoring: list[Point]


class GetBody(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """The body of a /get: selectors by name, and a time range (ms, inclusive).

    ``latest``: whether to return the latest values. ``max_stale_ms``: the maximum age of a
    replica's data, if a nearby replica answers in place of its source.
    """

    metricID: Names = None  # noqa: N815
    entityID: Names = None  # noqa: N815
    entityType: Names = None  # noqa: N815
    groupName: Names = None  # noqa: N815
    podName: Names = None  # noqa: N815
    podNamespace: Names = None  # noqa: N815
    containerName: Names = None  # noqa: N815
    nodes: Names = None
    start: Millis | None = None
    end: Millis | None = None
    latest: bool | None = None
    max_stale_ms: Count | None = None


class PagedBody(GetBody, frozen=True, kw_only=True):
    """The body of a /get: the selectors, the time range, and a page.

    ``limit``: the maximum number of items in the page; None: the answer has no pages. ``cursor``:
    the ``next`` of the previous page; None: the first page.
    """

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] | None = None
    cursor: Annotated[str, Meta(max_length=_MAX_CURSOR_CHARACTERS)] | None = None


class QueryBody(GetBody, frozen=True, kw_only=True):
    """The body of a /query: the fields of a /get, and the aggregate function."""

    agg: Literal["sum", "max", "min", "avg"]


class ListBody(PagedBody, frozen=True, kw_only=True):
    """The body of a /list: the selectors and the page of a /get.

    ``fields``: the names of the metadata fields to return.
    """

    fields: Names = None
