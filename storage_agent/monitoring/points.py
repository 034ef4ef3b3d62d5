"""From the items of a /put to rows of the raw stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from mistbow.errors import InvalidRequestError
from mistbow.labels import parse_labels
from mistbow.settings import AgentSettings
from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.bodies import Measurement, whole
from storage_agent.monitoring.catalogue import Catalogue, Metadata, Series
from storage_agent.streams.columns import Columns

_MOST_ATTRIBUTES = 8 * 2**10
"""Bytes of one point's attributes, as JSON."""

_MOST_KNOWN = 64 * 2**20
_KNOWN_EACH = 1024
"""About the bytes that a description takes beside its texts."""

_SAID = attrgetter(
    *(name for name in Measurement.__struct_fields__ if name not in ("val", "timestamp", "labels"))
)
"""What an item says of its series, but its labels: looked at for each point."""


@dataclass(slots=True)
class _Description:
    """All that an item says beside its value and time, worked out once.

    ``settled``: the series' metadata when it already said all of this.
    """

    attributes: str
    metadata: Metadata
    settled: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Points:
    """Rows for the raw stream, and the metadata of those of their series that it changes."""

    rows: Columns
    series: list[Metadata]


class PointMaker:
    """Makes rows of items posted to this node, and finds what they tell that is new."""

    def __init__(self, settings: AgentSettings, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._overridable, self._fixed = node_attributes(settings)
        self._known: dict[tuple[Any, ...], _Description] = {}
        self._known_bytes = 0

    def make(self, items: Sequence[Measurement]) -> Points:
        """Return the points of items.

        Raises ``InvalidRequestError`` for a time that is none, and for too many attributes.
        """
        attributes = []
        changed: dict[Series, Metadata] = {}
        for number, item in enumerate(items):
            description = self._describe(item, number)
            attributes.append(description.attributes)
            series = (item.metricID, item.entityID)
            stored = self._catalogue.metadata(series)
            if stored is None or stored is not description.settled:
                # What an item leaves out stays as it was.
                before = changed.get(series, stored or {})
                merged = {**before, **description.metadata}
                if merged == stored:
                    description.settled = stored
                elif merged != before:
                    changed[series] = merged
        times = [item.timestamp for item in items]
        for number, time in enumerate(times):
            if isinstance(time, float):
                times[number] = whole(time, f"monitoring[{number}].timestamp")
        columns = (
            [item.metricID for item in items],
            [item.entityID for item in items],
            attributes,
            times,
            [item.val for item in items],
        )
        return Points(Columns(POINTS, columns), list(changed.values()))

    def fits(self, item: Measurement) -> bool:
        """Tell whether an item's attributes take no more than they may."""
        try:
            self._describe(item, 0)
        except InvalidRequestError:
            return False
        return True

    def _describe(self, item: Measurement, number: int) -> _Description:
        labels = item.labels
        # Without the types, 1 and true would be the same.
        kinds = tuple((name, type(v), v) for name, v in labels.items()) if labels else ()
        key = (_SAID(item), kinds)
        known = self._known.get(key)
        if known is None:
            attributes = self._attributes(item)
            if len(attributes) > _MOST_ATTRIBUTES:
                raise InvalidRequestError(
                    f"monitoring[{number}]: its attributes take more than {_MOST_ATTRIBUTES} bytes",
                    hint="Send fewer or shorter labels.",
                )
            known = _Description(attributes.decode(), metadata_of(item))
            size = _KNOWN_EACH + len(attributes) + len(msgspec.json.encode(known.metadata))
            if self._known_bytes + size > _MOST_KNOWN:
                self._known.clear()
                self._known_bytes = 0
            self._known[key] = known
            self._known_bytes += size
        return known

    def _attributes(self, item: Measurement) -> bytes:
        own = {
            "entityID": item.entityID,
            "entityType": item.entityType,
            "group": item.group,
            **_prefixed("pod", item.pod),
            **_prefixed("container", item.container),
        }
        given = {name: value for name, value in own.items() if value is not None}
        everything = {**self._overridable, **(item.labels or {}), **self._fixed, **given}
        return msgspec.json.encode(everything, order="sorted")


def node_attributes(settings: AgentSettings) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes of this node that a point's labels override, and the others."""
    region = {"region": settings.region} if settings.region else {}
    node = {"node": settings.node, "site": settings.site}
    return {**parse_labels(settings.labels), **region}, node


def metadata_of(item: Measurement) -> Metadata:
    """Return the metadata of a series as an item tells it, without what it leaves out."""
    fields: Mapping[str, Any] = {
        "metricID": item.metricID,
        "entityID": item.entityID,
        "entityType": item.entityType,
        "name": item.name,
        "units": item.units,
        "desc": item.desc,
        "group": item.group,
        "minVal": item.minVal,
        "maxVal": item.maxVal,
        "higherIsBetter": item.higherIsBetter,
        "pod": item.pod and msgspec.to_builtins(item.pod),
        "container": item.container and msgspec.to_builtins(item.container),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _prefixed(name: str, part: msgspec.Struct | None) -> dict[str, Any]:
    if part is None:
        return {}
    return {f"{name}.{key}": value for key, value in msgspec.structs.asdict(part).items()}
