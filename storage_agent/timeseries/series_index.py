"""The index of series by metric, entity and description.

Each series has a number. Each text is stored once, as a numbered term. Columns contain the numbers
of the terms of each series: besides its texts, a series takes about 60 bytes in the columns and 110
bytes in the table of numbers. A search for few series follows postings; a search for many compares
whole columns, which takes a few milliseconds for a million series.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from storage_agent.series import Metadata, Series
from storage_agent.timeseries.selection import Int32s, SeriesSelection, describe
from storage_agent.timeseries.terms import Column, Postings, Terms

N = TypeVar("N", str, bytes)

_EARLIEST = -(2**63)
_MAX_PAIRS = 1000
"""The maximum number of pairs of metric and entity that are looked up one by one."""

_SCANNED_PER_POSTING = 64
"""The number of comparisons of a column's items that cost as much as one posting."""


class LatestValue(msgspec.Struct, frozen=True):
    """The value of the point of a series with the greatest timestamp.

    A staleness marker is the latest value only if no other point of the series arrived before.
    ``created``: the arrival time (ms) of the point with the greatest timestamp. ``seen``: the
    arrival time (ms) of the point of the series that arrived last.
    """

    ts: int
    value: float
    created: int = 0
    seen: int = 0


class SeriesIndex:
    """An index of series, which are numbered from 1 on, with their descriptions and latest values.

    The number of a removed series is given to a later series. ``version``: for each series, the
    number of the last change of its latest value; 0: the series has no latest value. ``changes``:
    the number of all changes. ``revision``: the number of changes of series and descriptions; those
    of latest values do not count.
    """

    def __init__(self) -> None:
        self.metrics: Terms[str] = Terms()
        self.entities: Terms[str] = Terms()
        self.descriptions: Terms[bytes] = Terms()
        self._metric_numbers = self.metrics.numbers
        self._entity_numbers = self.entities.numbers
        self.size = 1
        """The number after the greatest number that was ever given to a series."""
        self.metric = Column(np.int32)
        self.entity = Column(np.int32)
        self.ts = Column(np.int64)
        self.value = Column(np.float64)
        self.created = Column(np.int64)
        self.seen = Column(np.int64)
        self.version = Column(np.int64)
        self._description = Column(np.int32)
        self._of_metric = Postings()
        self._of_entity = Postings()
        self._numbers: dict[int, int] = {}
        self._free: list[int] = []
        self.changes = self.revision = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, metric: str, entity: str) -> int:
        """Return the number of a series; 0: the index does not contain the series."""
        # For each point; the calls of methods would take as long again.
        key = self._metric_numbers.get(metric, 0) << 32 | self._entity_numbers.get(entity, 0)
        return self._numbers.get(key, 0)

    def series(self, number: int) -> Series:
        """Return the series with a number; raises ``KeyError`` if the number is free."""
        metric = self.metrics.values[self.metric.view[number]]
        entity = self.entities.values[self.entity.view[number]]
        if metric is None or entity is None:
            raise KeyError(number)
        return metric, entity

    def description(self, number: int) -> bytes:
        """Return the description of a series, which is the same object for equal descriptions."""
        return self.descriptions.values[self._description.view[number]] or b"{}"

    def metadata(self, number: int) -> Metadata:
        """Return the metadata of the series with a number."""
        return describe(*self.series(number), self.description(number))

    def set_description(self, series: Series, description: bytes) -> int:
        """Set the description of a series, which is added if necessary; return its number."""
        found = self.number(*series)
        if not found:
            return self.add(*series, description)
        self.changes += 1
        self.revision += 1
        before = self._description.view[found]
        self._description.view[found] = self.descriptions.acquire(description)
        self.descriptions.release(before)
        return found

    def add(self, metric: str, entity: str, description: bytes, number: int = 0) -> int:
        """Add a series that the index does not contain; return its number.

        ``number``: the free number that the series gets; 0: any number.
        """
        if not number:
            number = self._free.pop() if self._free else self.size
        if number >= self.size:
            self._free.extend(range(self.size, number))
            self.size = number + 1
            self._grow()
        self.changes += 1
        self.revision += 1
        of_metric, of_entity = self.metrics.acquire(metric), self.entities.acquire(entity)
        self.metric.view[number], self.entity.view[number] = of_metric, of_entity
        self._description.view[number] = self.descriptions.acquire(description)
        self._of_metric.add(of_metric, number)
        self._of_entity.add(of_entity, number)
        self._numbers[of_metric << 32 | of_entity] = number
        return number

    def latest(self, number: int) -> LatestValue | None:
        """Return the latest value of the series with a number; None: there is no value."""
        if not self.version.view[number]:
            return None
        return LatestValue(
            self.ts.view[number],
            self.value.view[number],
            self.created.view[number],
            self.seen.view[number],
        )

    def set_latest(self, number: int, ts: int, value: float, created: int, seen: int) -> None:
        """Set the latest value of the series with a number; times in ms."""
        self.ts.view[number] = ts
        self.value.view[number] = value
        self.created.view[number] = created
        self.seen.view[number] = seen
        self.changes += 1
        self.version.view[number] = self.changes

    def see(self, number: int, seen: int) -> None:
        """Set the arrival time (ms) of the last point of the series with a number."""
        self.seen.view[number] = seen
        self.changes += 1
        self.version.view[number] = self.changes

    def remove(self, number: int) -> None:
        """Remove the series with a number."""
        self.changes += 1
        self.revision += 1
        metric, entity = self.metric.view[number], self.entity.view[number]
        del self._numbers[metric << 32 | entity]
        self._of_metric.remove(metric, number)
        self._of_entity.remove(entity, number)
        self.metrics.release(metric)
        self.entities.release(entity)
        self.descriptions.release(self._description.view[number])
        for column in (self.metric, self.entity, self._description, self.version):
            column.view[number] = 0
        self._free.append(number)

    def count_of_metric(self, metric: str) -> int:
        """Return the number of series of a metric."""
        return self.metrics.uses[self.metrics.number(metric)]

    def count_of_entity(self, entity: str) -> int:
        """Return the number of series of an entity."""
        return self.entities.uses[self.entities.number(entity)]

    def find(self, metrics: Collection[str] = (), entities: Collection[str] = ()) -> Int32s:
        """Return the numbers of the series with the given metrics and entities, ascending.

        An empty collection selects all metrics or all entities.
        """
        of_metrics = _numbers_of(self.metrics, metrics)
        of_entities = _numbers_of(self.entities, entities)
        if (metrics and not of_metrics) or (entities and not of_entities):
            return np.empty(0, np.int32)
        if metrics and entities and len(of_metrics) * len(of_entities) <= _MAX_PAIRS:
            keys = (metric << 32 | entity for metric in of_metrics for entity in of_entities)
            found = [number for key in keys if (number := self._numbers.get(key))]
            return np.array(sorted(found), np.int32)
        by_entity = sum(self.entities.uses[term] for term in of_entities)
        by_metric = sum(self.metrics.uses[term] for term in of_metrics)
        if entities and by_entity * _SCANNED_PER_POSTING < self.size:
            numbers = _follow(self._of_entity, of_entities, by_entity)
        elif metrics and by_metric * _SCANNED_PER_POSTING < self.size:
            numbers = _follow(self._of_metric, of_metrics, by_metric)
        else:
            numbers = np.flatnonzero(self.metric.array[: self.size]).astype(np.int32)
        for column, terms in ((self.metric, of_metrics), (self.entity, of_entities)):
            if terms:
                numbers = numbers[_is_one_of(column.array[numbers], terms)]
        return numbers

    def select(self, numbers: Int32s, expired_before: int = _EARLIEST) -> SeriesSelection:
        """Return a snapshot of the series with the given numbers.

        ``expired_before``: latest values that arrived before this time (ms) are left out.
        """
        return self._snapshot(lambda column: column.array[numbers], expired_before)

    def select_all(self, expired_before: int = _EARLIEST) -> SeriesSelection:
        """Return a snapshot of all series; ``expired_before``: see ``select``."""
        if len(self) < self.size - 1:
            return self.select(self.find(), expired_before)
        # No number is free: a slice is copied in a fifth of the time of single items.
        every = slice(1, self.size)
        return self._snapshot(lambda column: column.array[every].copy(), expired_before)

    def _snapshot(
        self, items: Callable[[Column], npt.NDArray[Any]], expired_before: int
    ) -> SeriesSelection:
        """Return a snapshot of series; ``items``: returns a copy of their items in a column."""
        metrics, metric = _names(self.metrics, items(self.metric))
        entities, entity = _names(self.entities, items(self.entity))
        descriptions, description = _names(self.descriptions, items(self._description))
        created = items(self.created)
        return SeriesSelection(
            metrics=metrics,
            entities=entities,
            descriptions=descriptions,
            metric=metric,
            entity=entity,
            description=description,
            ts=items(self.ts),
            value=items(self.value),
            created=created,
            seen=items(self.seen),
            has_latest=(items(self.version) > 0) & (created >= expired_before),
        )

    def _grow(self) -> None:
        if self.size <= len(self.metric.array):
            return
        for column in (self.metric, self.entity, self._description, self.ts, self.value):
            column.grow(self.size)
        for column in (self.created, self.seen, self.version):
            column.grow(self.size)
        self._of_metric.grow(self.size)
        self._of_entity.grow(self.size)


def _numbers_of(terms: Terms[str], names: Collection[str]) -> list[int]:
    return [number for name in names if (number := terms.number(name))]


def _follow(postings: Postings, terms: Iterable[int], count: int) -> Int32s:
    found = (number for term in terms for number in postings.of_term(term))
    return np.sort(np.fromiter(found, np.int32, count))


def _is_one_of(column: Int32s, terms: Collection[int]) -> npt.NDArray[np.bool_]:
    if len(terms) == 1:
        [term] = terms
        single: npt.NDArray[np.bool_] = column == term
        return single
    is_term = np.zeros(max(int(column.max(initial=0)), *terms) + 1, np.bool_)
    is_term[list(terms)] = True
    return is_term[column]


def _names(terms: Terms[N], column: Int32s) -> tuple[list[N | None], Int32s]:
    """Return the values of the terms in a column, and the column with the indices of the values.

    The list is a copy of all values, or has a value for each item, whichever is less work.
    """
    if len(column) * _SCANNED_PER_POSTING > len(terms.values):
        return list(terms.values), column
    return [terms.values[term] for term in column.tolist()], np.arange(len(column), dtype=np.int32)
