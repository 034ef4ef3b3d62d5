"""Answering a /get: which series are wanted, and their latest or past values."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

from mistbow.auth.callers import current_caller
from mistbow.errors import InvalidRequestError
from mistbow.http.shortcut import Content
from storage_agent.monitoring.bodies import LATEST_MS, GetBody, whole
from storage_agent.monitoring.catalogue import Catalogue, Metadata, Series
from storage_agent.monitoring.history import History
from storage_agent.monitoring.values import item_of

_WHOLE = 10_000
"""An answer of no more values is made at once."""


class Extraction:
    """Reads what is stored on this node."""

    def __init__(self, node: str, catalogue: Catalogue, history: History) -> None:
        self._node = node
        self._catalogue = catalogue
        self._history = history

    async def get(self, body: GetBody) -> Content:
        """Return the JSON answer; raises ``InvalidRequestError`` and ``TooLargeError``.

        That ``body`` may ask for other nodes too is not looked at here.
        """
        wanted = chosen(self._catalogue, body)
        times = times_of(body)
        if times is None:
            data = [self._latest(series, metadata) for series, metadata in wanted.items()]
            told = msgspec.json.encode([item for item in data if item is not None])
            return b"".join(self._answer((told,)))
        lost: list[str] = []
        values = await self._history.values(wanted, *times, lost)
        pieces = self._answer(await asyncio.to_thread(values.json), lost)
        return pieces if len(values) > _WHOLE else b"".join(pieces)

    def _answer(self, data: Iterable[bytes], lost: Iterable[str] = ()) -> Iterator[bytes]:
        node = msgspec.json.encode(self._node)
        missing = [{"node": self._node, "reason": reason} for reason in lost]
        end = b',"missing":' + msgspec.json.encode(missing) + b"}" if missing else b"}"
        return chain((b'{"monitoring":[{"node":' + node + b',"data":',), data, (b"}]", end))

    def _latest(self, series: Series, metadata: Metadata) -> dict[str, Any] | None:
        latest = self._catalogue.latest(series)
        if latest is None:
            return None
        return item_of(metadata, [{"timestamp": latest.ts, "val": latest.value}])


def chosen(catalogue: Catalogue, body: GetBody) -> dict[Series, Metadata]:
    """Return the series that the filters of a body ask for, and their metadata."""
    fits = fitting(body)
    known = catalogue.among(choice_of(body.metricID), choice_of(body.entityID))
    return {series: metadata for series, metadata in known if fits(metadata)}


def fitting(body: GetBody) -> Callable[[Metadata], bool]:
    """Return what tells whether a series is one that the filters of a body ask for.

    Never one that the caller's token is not for; raises ``ForbiddenError`` if that is asked for.
    """
    caller, filters = current_caller(), _filters(body)
    caller.check_entities(choice_of(body.entityID))
    prefix = caller.entity_prefix
    return lambda metadata: (
        metadata["entityID"].startswith(prefix)
        and all(told(metadata) in choice for told, choice in filters)
    )


def times_of(body: GetBody) -> tuple[int, int] | None:
    """Return the first and the last time that a body asks for; None: only the latest value."""
    return times_between(body.start, body.end, body.latest)


def times_between(
    start: float | None, end: float | None, latest: bool | None
) -> tuple[int, int] | None:
    """Return the first and the last time that ``from`` and ``to`` say; None: only the latest."""
    first = 0 if start is None else whole(start, "from")
    last = LATEST_MS if end is None else whole(end, "to")
    if first > last:
        raise InvalidRequestError(f"from ({first}) is after to ({last})")
    if latest or (latest is None and start is None and end is None):
        return None
    return first, last


def limits_of(body: GetBody) -> tuple[int | None, int | None]:
    """Return the first and the last time that a body names; None: without end."""
    times_of(body)
    start = None if body.start is None else whole(body.start, "from")
    return start, None if body.end is None else whole(body.end, "to")


def _filters(body: GetBody) -> list[tuple[Callable[[Metadata], Any], frozenset[str]]]:
    """Return what a series must tell of itself to be wanted: of each filter one of its values."""
    asked = (
        (itemgetter("metricID"), body.metricID),
        (itemgetter("entityID"), body.entityID),
        (lambda metadata: metadata.get("entityType"), body.entityType),
        (lambda metadata: metadata.get("group"), body.groupName),
        (lambda metadata: metadata.get("pod", {}).get("name"), body.podName),
        (lambda metadata: metadata.get("pod", {}).get("namespace"), body.podNamespace),
        (lambda metadata: metadata.get("container", {}).get("name"), body.containerName),
    )
    return [(told, choice) for told, values in asked if (choice := choice_of(values))]


def choice_of(value: frozenset[str] | str | None) -> frozenset[str]:
    """Return the values of a filter; none asks for all, as does an empty text."""
    return frozenset([value] if isinstance(value, str) and value else value or ())
