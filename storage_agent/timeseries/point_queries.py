"""The answer of one node to a /get: the selection of series, and their latest or past points."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

from mistbow.auth.callers import current_caller
from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError
from mistbow.streams.json_numbers import to_json
from storage_agent.http.decode import to_integer
from storage_agent.http.points import GetBody
from storage_agent.http.responses import Content
from storage_agent.series import Metadata
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.grouped_points import join_chunks, join_items
from storage_agent.timeseries.history import History
from storage_agent.timeseries.selection import SeriesSelection, metadata_json
from storage_agent.work_threads import in_thread_if_many

_MAX_WHOLE_POINTS = 10_000
"""The maximum number of points in an answer that is sent as a whole, and not streamed."""

_MAX_WHOLE_SERIES = 1000
"""The maximum number of latest values in an answer that is sent as a whole, and not streamed."""

_CallBeside = Callable[[int, Callable[[], SeriesSelection]], Awaitable[SeriesSelection]]
"""``in_thread_if_many``, or a function like it."""


class PointReader:
    """Reads the points of this node."""

    def __init__(self, node: str, catalogue: Catalogue, history: History) -> None:
        self._node = node
        self._catalogue = catalogue
        self._history = history

    async def get(self, body: GetBody) -> Content:
        """Return the JSON answer of this node to a /get; the field ``nodes`` is ignored.

        Raises ``InvalidRequestError`` for an invalid time range, and ``TooLargeError`` for too many
        points.
        """
        times = time_range(body)
        series = await select_series(self._catalogue, body)
        if times is None:
            latest = series.where(series.has_latest)
            chunks = self._answer(_latest_json(latest))
            return chunks if len(latest) > _MAX_WHOLE_SERIES else b"".join(chunks)
        reasons: list[str] = []
        points = await self._history.read_grouped(series, *times, reasons)
        chunks = self._answer(points.to_json(), reasons)
        return chunks if len(points) > _MAX_WHOLE_POINTS else b"".join(chunks)

    def _answer(self, data: Iterable[bytes], reasons: Iterable[str] = ()) -> Iterator[bytes]:
        node = msgspec.json.encode(self._node)
        missing = [{"node": self._node, "reason": reason} for reason in reasons]
        end = b',"missing":' + msgspec.json.encode(missing) + b"}" if missing else b"}"
        return chain((b'{"monitoring":[{"node":' + node + b',"data":',), data, (b"}]", end))


def _latest_json(series: SeriesSelection) -> Iterator[bytes]:
    """Yield the chunks of a JSON list with the latest value of each series."""
    values = zip(series.rows(), series.ts.tolist(), series.value.tolist(), strict=True)
    items = (
        b'%b,"values":[{"timestamp":%d,"val":%b}]}'
        % (metadata_json(*row)[:-1], ts, msgspec.json.encode(to_json(value)))
        for row, ts, value in values
    )
    return join_chunks(chain((b"[",), join_items(items), (b"]",)))


async def select_series(catalogue: Catalogue, body: GetBody) -> SeriesSelection:
    """Return the series in the catalogue that a body selects."""
    return await series_selection(catalogue, body)()


def series_selection(
    catalogue: Catalogue, body: GetBody, beside: _CallBeside = in_thread_if_many
) -> Callable[[], Awaitable[SeriesSelection]]:
    """Return a function that returns the series in the catalogue that a body selects.

    The function can be called from another task: the rights of the sender of the present request
    apply. ``beside``: calls a function, in a thread if there are many series.
    """
    caller, metrics, entities = current_caller(), name_set(body.metricID), name_set(body.entityID)
    caller.check_entities(entities)
    # The catalogue itself selects by metric and entity.
    filters = _filters(msgspec.structs.replace(body, metricID=None, entityID=None))

    def matches(description: Metadata) -> bool:
        return all(field(description) in names for field, names in filters)

    def narrow(found: SeriesSelection) -> SeriesSelection:
        found = found.of_prefix(caller.entity_prefix)
        return found.where(found.mask_descriptions(matches))

    async def select() -> SeriesSelection:
        found = catalogue.select(metrics, entities)
        if not filters and not caller.entity_prefix:
            return found
        return await beside(len(found), lambda: narrow(found))

    return select


def series_filter(body: GetBody) -> Callable[[Metadata], bool]:
    """Return a predicate on metadata: whether a body and the caller's token select the series.

    Raises ``ForbiddenError`` for an entity to which the token gives no access.
    """
    caller, filters = current_caller(), _filters(body)
    caller.check_entities(name_set(body.entityID))
    prefix = caller.entity_prefix
    return lambda metadata: (
        metadata["entityID"].startswith(prefix)
        and all(field(metadata) in names for field, names in filters)
    )


def time_range(body: GetBody) -> tuple[int, int] | None:
    """Return the first and last timestamp (ms) to read; None: the body requests latest values."""
    return parse_time_range(body.start, body.end, body.latest)


def parse_time_range(
    start: float | None, end: float | None, latest: bool | None
) -> tuple[int, int] | None:
    """Return the first and last timestamp (ms, inclusive) to read.

    None: the request asks for latest values. ``start``, ``end``, ``latest``: the fields ``from``,
    ``to`` and ``latest`` of the request. Raises ``InvalidRequestError``.
    """
    first = 0 if start is None else to_integer(start, "from")
    last = MAX_TIMESTAMP_MS if end is None else to_integer(end, "to")
    if first > last:
        raise InvalidRequestError(
            f"from ({first}) is after to ({last})",
            hint="Exchange the two times; both are inclusive.",
        )
    if latest or (latest is None and start is None and end is None):
        return None
    return first, last


def deletion_range(body: GetBody) -> tuple[int | None, int | None]:
    """Return the first and last timestamp (ms) to delete; each is None if unbounded."""
    time_range(body)
    start = None if body.start is None else to_integer(body.start, "from")
    return start, None if body.end is None else to_integer(body.end, "to")


def _filters(body: GetBody) -> list[tuple[Callable[[Metadata], Any], frozenset[str]]]:
    """Return the filters in a body: pairs of a getter of a metadata field and allowed values."""
    filters = (
        (itemgetter("metricID"), body.metricID),
        (itemgetter("entityID"), body.entityID),
        (lambda metadata: metadata.get("entityType"), body.entityType),
        (lambda metadata: metadata.get("group"), body.groupName),
        (lambda metadata: metadata.get("pod", {}).get("name"), body.podName),
        (lambda metadata: metadata.get("pod", {}).get("namespace"), body.podNamespace),
        (lambda metadata: metadata.get("container", {}).get("name"), body.containerName),
    )
    return [(field, names) for field, value in filters if (names := name_set(value))]


def name_set(value: frozenset[str] | str | None) -> frozenset[str]:
    """Return the names in a field of a body; the empty set means all names.

    Null and an empty text result in the empty set.
    """
    return frozenset([value] if isinstance(value, str) and value else value or ())
