"""The encoding of the points in a /put as rows of the stream ``raw``."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec

from mistbow.client.agent_model import Point
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.runtime.slices import SHORT, Slices
from mistbow.settings import parse_labels
from mistbow.streams.json_numbers import from_json
from mistbow.streams.schemas import POINTS
from storage_agent.http.decode import to_integer
from storage_agent.series import Metadata, Series, merge_labels
from storage_agent.settings import AgentSettings
from storage_agent.streams.columns import Columns
from storage_agent.timeseries.catalogue import Catalogue

_MAX_ATTRIBUTES_BYTES = 8 * 2**10
"""The maximum size of a point's attributes as JSON."""

_SLICE = 500
"""The number of points that are encoded before other tasks may run."""

_MAX_CACHE_BYTES = 64 * 2**20
_ENTRY_BYTES = 1024
"""The approximate size of a cached description, without its texts."""

_get_description = attrgetter(
    *(name for name in Point.__struct_fields__ if name not in ("value", "ts", "labels"))
)
"""A function that returns the fields of a point that describe its series, except labels."""


@dataclass(slots=True)
class _Description:
    """The description of a series in a point.

    ``attributes``: the attributes (JSON) in the row of the point. ``metadata``: the metadata of the
    series in the point. ``included_in``: the description in the catalogue that was found to include
    ``metadata``, or None.
    """

    attributes: str
    metadata: Metadata
    included_in: bytes | None = None


@dataclass(frozen=True, slots=True)
class EncodedPoints:
    """Rows for the stream ``raw``, and the series metadata that is new or changed."""

    rows: Columns
    series: list[Metadata]


class PointEncoder:
    """Encodes points as rows, and finds new or changed metadata of their series.

    ``max_series``: the maximum number of series; bodies that would exceed it are refused. None: no
    limit.
    """

    def __init__(
        self, settings: AgentSettings, catalogue: Catalogue, max_series: int | None = None
    ) -> None:
        self._catalogue = catalogue
        self._max_series = max_series
        self._overridable, self._fixed = node_attributes(settings)
        self._descriptions: dict[tuple[Any, ...], _Description] = {}
        self._cached_bytes = 0

    def encode(self, points: Sequence[Point]) -> EncodedPoints:
        """Return the rows of points, and the metadata of the series that the points add or change.

        Raises ``InvalidRequestError`` for a timestamp that is not an integer, and for attributes
        that are too large.
        """
        changed: dict[Series, Metadata] = {}
        columns = self._encode_columns(points, 0, changed)
        return EncodedPoints(Columns(POINTS, columns), list(changed.values()))

    async def encode_in_slices(
        self, points: Sequence[Point], *, is_acknowledged: bool = False
    ) -> EncodedPoints:
        """Return the same as ``encode``; other tasks may run in between.

        Raises ``TooLargeError`` if the points add series beyond the limit, unless the sender has
        an acknowledgement for them.
        """
        changed: dict[Series, Metadata] = {}
        columns: tuple[list[Any], ...] = ([], [], [], [], [])
        slices = Slices(kind=SHORT)
        for begin in range(0, len(points), _SLICE):
            if begin:
                await slices.pause()
            part = self._encode_columns(points[begin : begin + _SLICE], begin, changed)
            for column, values in zip(columns, part, strict=True):
                column += values
        if not is_acknowledged:
            self._check_number(changed)
        return EncodedPoints(Columns(POINTS, columns), list(changed.values()))

    def _check_number(self, changed: Collection[Series]) -> None:
        limit, present = self._max_series, len(self._catalogue)
        if limit is None or present + len(changed) <= limit:
            return
        new = sum(not self._catalogue.contains(series) for series in changed)
        if new and present + new > limit:
            # Not 507: senders would repeat the body for ever, and with it points of present series.
            raise TooLargeError(
                f"the site has {present} series, the body adds {new}, and at most {limit} are "
                "allowed",
                hint="Look for metrics or entities whose names always change, delete series, or "
                "raise MISTBOW_MAX_SERIES. Bodies without points of new series are stored.",
            )

    def _encode_columns(
        self, points: Sequence[Point], begin: int, changed: dict[Series, Metadata]
    ) -> tuple[list[Any], ...]:
        """Return the columns of the rows; add the metadata that is new or changed to ``changed``.

        ``begin``: the number of the first point in the body.
        """
        attributes = []
        describe = self._catalogue.description
        for number, point in enumerate(points, begin):
            description = self._describe(point, number)
            attributes.append(description.attributes)
            found = describe(point.metric, point.entity)
            # By identity: equal descriptions in the catalogue are the same object.
            if found is None or found is not description.included_in:
                series = (point.metric, point.entity)
                stored = self._catalogue.metadata(series)
                # Fields that the point omits stay as they were.
                before = changed.get(series, stored or {})
                merged = {**before, **description.metadata}
                if merged == stored:
                    description.included_in = found
                elif merged != before:
                    changed[series] = merged
        times = [point.ts for point in points]
        for number, time in enumerate(times):
            if isinstance(time, float):
                times[number] = to_integer(time, f"monitoring[{begin + number}].timestamp")
        values = [point.value for point in points]
        if str in set(map(type, values)):
            values = list(map(from_json, values))
        metrics = [point.metric for point in points]
        return metrics, [point.entity for point in points], attributes, times, values

    def accepts_attributes(self, point: Point) -> bool:
        """Return whether the size of a point's attributes is allowed."""
        try:
            self._describe(point, 0)
        except InvalidRequestError:
            return False
        return True

    def _describe(self, point: Point, number: int) -> _Description:
        labels = point.labels
        # With types, since 1 and True are equal.
        kinds = tuple((name, type(v), v) for name, v in labels.items()) if labels else ()
        key = (_get_description(point), kinds)
        description = self._descriptions.get(key)
        if description is None:
            attributes = self._encode_attributes(point)
            if len(attributes) > _MAX_ATTRIBUTES_BYTES:
                raise InvalidRequestError(
                    f"monitoring[{number}]: the attributes take {len(attributes)} bytes, "
                    f"and at most {_MAX_ATTRIBUTES_BYTES} are allowed",
                    hint="Send fewer or shorter labels.",
                )
            description = _Description(attributes.decode(), metadata_of(point))
            size = _ENTRY_BYTES + len(attributes) + len(msgspec.json.encode(description.metadata))
            if self._cached_bytes + size > _MAX_CACHE_BYTES:
                self._descriptions.clear()
                self._cached_bytes = 0
            self._descriptions[key] = description
            self._cached_bytes += size
        return description

    def _encode_attributes(self, point: Point) -> bytes:
        own = {
            "entityID": point.entity,
            "entityType": point.entity_type,
            "group": _group_of(point),
            **_prefixed("pod", point.pod),
            **_prefixed("container", point.container),
        }
        given = {name: value for name, value in own.items() if value is not None}
        merged = merge_labels({**self._fixed, **given}, point.labels or {})
        if point.group is not None and point.group == merged.get("job"):
            # Readers take a group that equals the job for one that the agent has added, and remove
            # it: the sender's own group is stored below it.
            merged = merge_labels({"group": point.group}, merged)
        return msgspec.json.encode({**self._overridable, **merged}, order="sorted")


def node_attributes(settings: AgentSettings) -> tuple[dict[str, str], dict[str, str]]:
    """Return two dicts of the node's attributes, name -> value.

    The labels of a point can override the attributes in the first dict only.
    """
    region = {"region": settings.region} if settings.region else {}
    node = {"node": settings.node, "site": settings.site}
    return {**parse_labels(settings.labels), **region}, node


def _group_of(point: Point) -> str | None:
    """Return the group of a point: the field ``group``, or else the label ``job``."""
    job = (point.labels or {}).get("job")
    return job if point.group is None and isinstance(job, str) and job else point.group


def metadata_of(point: Point) -> Metadata:
    """Return the metadata of the series in a point, without the fields that the point omits."""
    fields: Mapping[str, Any] = {
        "metricID": point.metric,
        "entityID": point.entity,
        "entityType": point.entity_type,
        "name": point.name,
        "units": point.units,
        "desc": point.desc,
        "group": _group_of(point),
        "minVal": point.min_val,
        "maxVal": point.max_val,
        "higherIsBetter": point.higher_is_better,
        "pod": point.pod and msgspec.to_builtins(point.pod),
        "container": point.container and msgspec.to_builtins(point.container),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _prefixed(name: str, part: msgspec.Struct | None) -> dict[str, Any]:
    if part is None:
        return {}
    return {f"{name}.{key}": value for key, value in msgspec.structs.asdict(part).items()}
