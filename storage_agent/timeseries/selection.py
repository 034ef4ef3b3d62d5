"""Selections of series: snapshots of the index that threads read while the index changes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from storage_agent.series import Metadata, Series

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ROWS_PER_STEP = 5000


def describe(metric: str, entity: str, description: bytes) -> Metadata:
    """Return the metadata of a series.

    ``description``: a JSON object with the fields other than the metric and the entity.

    >>> describe("cpu", "vm1", b'{"units":"percent"}')
    {'metricID': 'cpu', 'entityID': 'vm1', 'units': 'percent'}
    """
    return {"metricID": metric, "entityID": entity, **msgspec.json.decode(description)}


def metadata_json(metric: str, entity: str, description: bytes) -> bytes:
    """Return the metadata of a series as JSON.

    >>> metadata_json("cpu", "vm1", b'{"units":"percent"}')
    b'{"metricID":"cpu","entityID":"vm1","units":"percent"}'
    """
    encode = msgspec.json.encode
    rest = b"}" if description == b"{}" else b"," + description[1:]
    return b'{"metricID":%b,"entityID":%b%b' % (encode(metric), encode(entity), rest)


def description_of(metadata: Metadata) -> bytes:
    """Return the description in the metadata of a series; the inverse of ``describe``."""
    rest = {name: value for name, value in metadata.items() if name not in _KEY}
    return msgspec.json.encode(rest)


_KEY = ("metricID", "entityID")


@dataclass(frozen=True, eq=False)
class SeriesSelection(Mapping[Series, Metadata]):
    """Some series, with their metadata and latest values, at the time of the selection.

    ``metrics``, ``entities``, ``descriptions``: the texts to which the indices refer; other series
    may use some of the texts. The other fields have an item for each selected series: the index of
    its metric, entity and description, and its latest value (times in ms), which is valid where
    ``has_latest`` is True.
    """

    metrics: Sequence[str | None]
    entities: Sequence[str | None]
    descriptions: Sequence[bytes | None]
    metric: Int32s
    entity: Int32s
    description: Int32s
    ts: Int64s
    value: npt.NDArray[np.float64]
    created: Int64s
    seen: Int64s
    has_latest: Bools

    def __len__(self) -> int:
        return len(self.metric)

    def __iter__(self) -> Iterator[Series]:
        metrics, entities = self.metrics, self.entities
        for begin in range(0, len(self), _ROWS_PER_STEP):
            part = slice(begin, begin + _ROWS_PER_STEP)
            pairs = zip(self.metric[part].tolist(), self.entity[part].tolist(), strict=True)
            for metric, entity in pairs:
                yield metrics[metric], entities[entity]

    def __getitem__(self, series: Series) -> Metadata:
        return self.metadata(self._places[series])

    def __contains__(self, series: object) -> bool:
        return series in self._places

    @cached_property
    def _places(self) -> dict[Series, int]:
        return {series: place for place, series in enumerate(self)}

    def metadata(self, place: int) -> Metadata:
        """Return the metadata of the series at a place in the selection."""
        return describe(*self.series(place), self.descriptions[self.description[place]] or b"{}")

    def rows(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield (metric, entity, description) of each series."""
        descriptions = self.descriptions
        for begin in range(0, len(self), _ROWS_PER_STEP):
            part = slice(begin, begin + _ROWS_PER_STEP)
            columns = (each[part].tolist() for each in (self.metric, self.entity, self.description))
            for metric, entity, description in zip(*columns, strict=True):
                yield (
                    self.metrics[metric] or "",
                    self.entities[entity] or "",
                    descriptions[description] or b"{}",
                )

    def values(self) -> Iterator[Metadata]:  # type: ignore[override]
        """Yield the metadata of each series."""
        return (describe(*row) for row in self.rows())

    def items(self) -> Iterator[tuple[Series, Metadata]]:  # type: ignore[override]
        """Yield (series, metadata) of each series."""
        return ((row[:2], describe(*row)) for row in self.rows())

    def described_metrics(self) -> Iterator[tuple[str, Metadata]]:
        """Yield (metric, metadata without the entity) of each distinct pair, in any order."""
        width = max(1, len(self.descriptions))
        pairs = np.unique(self.metric.astype(np.int64) * width + self.description)
        for metric, description in (divmod(pair, width) for pair in pairs.tolist()):
            text = self.descriptions[description] or b"{}"
            yield self.metrics[metric] or "", msgspec.json.decode(text)

    def where(self, mask: Bools) -> "SeriesSelection":
        """Return the series for which a mask is True."""
        if mask.all():
            return self
        columns = {name: getattr(self, name)[mask] for name in _COLUMNS}
        return replace(self, **columns)

    def of_prefix(self, prefix: str) -> "SeriesSelection":
        """Return the series whose entities begin with a prefix."""
        if not prefix:
            return self
        return self.where(_mask(self.entities, self.entity, lambda each: each.startswith(prefix)))

    def series(self, place: int) -> Series:
        """Return the series at a place in the selection."""
        return self.metrics[self.metric[place]] or "", self.entities[self.entity[place]] or ""

    def at(self, places: Int64s) -> "SeriesSelection":
        """Return the series at the given places, in this order."""
        return replace(self, **{name: getattr(self, name)[places] for name in _COLUMNS})

    def part(self, begin: int, end: int) -> "SeriesSelection":
        """Return the series at the places from ``begin`` to ``end`` (exclusive)."""
        return replace(self, **{name: getattr(self, name)[begin:end] for name in _COLUMNS})

    def metric_names(self) -> list[str]:
        """Return the names of the metrics of the series, each once."""
        return _texts(self.metrics, self.metric)

    def entity_names(self) -> list[str]:
        """Return the names of the entities of the series, each once."""
        return _texts(self.entities, self.entity)

    def has_metric(self, metrics: Collection[str]) -> Bools:
        """Return a mask of the series with one of the given metrics."""
        return _mask(self.metrics, self.metric, metrics.__contains__)

    def has_entity(self, entities: Collection[str]) -> Bools:
        """Return a mask of the series with one of the given entities."""
        return _mask(self.entities, self.entity, entities.__contains__)

    def mask_descriptions(self, matches: Callable[[Metadata], bool]) -> Bools:
        """Return a mask of the series whose descriptions match a condition.

        The condition receives the metadata without the metric and the entity.
        """
        return _mask(
            self.descriptions, self.description, lambda text: matches(msgspec.json.decode(text))
        )


_COLUMNS = tuple(each.name for each in fields(SeriesSelection))[3:]


def used(indices: Int32s, count: int) -> Int64s:
    """Return the distinct values of ``indices``, ascending; each value is less than ``count``."""
    present = np.zeros(count, np.bool_)
    present[indices] = True
    return np.flatnonzero(present)


def _texts(texts: Sequence[str | None], indices: Int32s) -> list[str]:
    return [texts[index] or "" for index in used(indices, len(texts)).tolist()]


def _mask(texts: Sequence[Any], indices: Int32s, matches: Callable[[Any], bool]) -> Bools:
    """Return a mask of the items whose texts match; each text that occurs is checked once."""
    chosen = np.zeros(len(texts), np.bool_)
    for index in used(indices, len(texts)).tolist():
        chosen[index] = matches(texts[index])
    mask: Bools = chosen[indices]
    return mask
