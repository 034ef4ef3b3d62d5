"""The query for the latest records of a schema that satisfy conditions on fields."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from mistbow.errors import InvalidRequestError
from storage_agent.records.bodies import KeyValues, RecordQueryBody
from storage_agent.records.field_index import FieldCondition, extract_term, parse_condition
from storage_agent.records.kind import to_record_value
from storage_agent.records.latest import LatestRecords, StoredRecord
from storage_agent.timeseries.point_queries import parse_time_range

_MAX_LOOP_RECORDS = 500
"""The maximum number of records checked in the event loop; more records are checked in a thread."""


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

    async def run(self, latest: LatestRecords) -> list[KeyValues]:
        """Return the records in ``latest`` that satisfy the conditions, sorted by key."""
        candidates = self._candidates(latest)
        if len(candidates) <= _MAX_LOOP_RECORDS or not self.others:
            return self._select(candidates)
        return await asyncio.to_thread(self._select, candidates)

    def _candidates(self, latest: LatestRecords) -> list[tuple[str, StoredRecord]]:
        if not self.indexed:
            return latest.items()
        found = [latest.index(self.schema, each.field).find(each) for each in self.indexed]
        keys = set(found[0]).intersection(*found[1:])
        return [(key, record) for key in keys if (record := latest.get(key)) is not None]

    def _select(self, candidates: Iterable[tuple[str, StoredRecord]]) -> list[KeyValues]:
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
