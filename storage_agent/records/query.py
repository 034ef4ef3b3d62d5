"""The query for the latest records of a schema that satisfy conditions on fields."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from mistbow.errors import InvalidRequestError
from storage_agent.records.bodies import KeyValues, RecordQueryBody
from storage_agent.records.field_index import (
    Entry,
    FieldCondition,
    FieldIndex,
    extract_term,
    parse_condition,
)
from storage_agent.records.kind import to_record_value
from storage_agent.records.latest import MAX_COPIED_KEYS, LatestRecords, StoredRecord
from storage_agent.timeseries.point_queries import parse_time_range

T = TypeVar("T")

_EntrySets = Collection[Collection[Entry]]
"""For each condition on an indexed field, (term, key) of the records that satisfy it."""


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query for the latest records of a schema that satisfy all conditions.

    ``indexed``: the conditions on indexed fields. ``others``: the conditions on other fields, which
    the query checks for each record. ``times``: the inclusive time range (ms); None: all times.
    ``limit``: the maximum number of records; None if unlimited.
    """

    schema: str
    indexed: tuple[FieldCondition, ...]
    others: tuple[FieldCondition, ...]
    times: tuple[int, int] | None
    limit: int | None

    @classmethod
    def of(cls, body: RecordQueryBody, indexed: tuple[str, ...]) -> "RecordQuery":
        """Return the query that a request body specifies; raises ``InvalidRequestError``.

        ``indexed``: the names of the indexed fields of the schema.
        """
        if "" in body.where:
            raise InvalidRequestError("where: the name of a field is empty")
        conditions = [parse_condition(field, value) for field, value in body.where.items()]
        return cls(
            body.schema,
            tuple(each for each in conditions if each.field in indexed),
            tuple(each for each in conditions if each.field not in indexed),
            parse_time_range(body.since, body.until, None),
            body.limit,
        )

    async def run(self, encode: Callable[[list[KeyValues]], T], latest: LatestRecords) -> T:
        """Encode the records in ``latest`` that satisfy the conditions, sorted by key.

        ``encode``: called in the thread that selects the records.
        """
        indexes = await self._indexes(latest)
        counts = [index.count(each) for index, each in zip(indexes, self.indexed, strict=True)]
        async with latest.turn(sum(counts) if counts else len(latest)):
            # After the wait for its turn, since records may have changed meanwhile.
            found = await self._find(latest)
            return await latest.read(
                _count(found, latest),
                lambda records: encode(self._select(found, records)),
                _keys(found),
            )

    async def _find(self, latest: LatestRecords) -> _EntrySets:
        indexes = await self._indexes(latest)
        return [index.find(each) for index, each in zip(indexes, self.indexed, strict=True)]

    async def _indexes(self, latest: LatestRecords) -> list[FieldIndex]:
        return await latest.indexes(self.schema, [each.field for each in self.indexed])

    def _select(self, found: _EntrySets, latest: LatestRecords) -> list[KeyValues]:
        candidates = _candidates(found, latest)
        selected = sorted(
            (item for item in candidates if self._matches(item[1])), key=lambda item: item[0]
        )
        return [KeyValues(key, [to_record_value(record)]) for key, record in selected[: self.limit]]

    def _matches(self, record: StoredRecord) -> bool:
        if record.schema != self.schema:
            return False
        if self.times is not None and not self.times[0] <= record.ts <= self.times[1]:
            return False
        return all(each.matches(extract_term(record.val, each.field)) for each in self.others)


def _count(found: _EntrySets, latest: LatestRecords) -> int:
    """Return the approximate number of records that a query reads."""
    return sum(map(len, found)) if found else len(latest)


def _keys(found: _EntrySets) -> Iterable[str] | None:
    """Return the keys of the condition that the fewest records satisfy; None: all, or too many."""
    fewest = min(found, key=len, default=None)
    if fewest is None or len(fewest) > MAX_COPIED_KEYS:
        return None
    return map(itemgetter(1), fewest)


def _candidates(found: _EntrySets, latest: LatestRecords) -> Iterable[tuple[str, StoredRecord]]:
    """Return the records that satisfy all conditions on indexed fields."""
    if not found:
        return latest.items()
    first, *others = ({key for _, key in each} for each in found)
    keys = first.intersection(*others)
    return ((key, record) for key in keys if (record := latest.get(key)) is not None)
