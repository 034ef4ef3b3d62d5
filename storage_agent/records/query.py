"""Finding the latest records of a schema by what their fields are."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from mistbow.errors import InvalidRequestError
from storage_agent.monitoring.extraction import times_between
from storage_agent.records.bodies import KeyValues, QueryBody
from storage_agent.records.index import Condition, condition, field_of
from storage_agent.records.kind import value_of
from storage_agent.records.latest import Latest, Record

_HERE = 500
"""So many records are looked at between other requests; more are in a thread of their own."""


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions that must all hold; those on indexed fields are looked up."""

    schema: str
    indexed: tuple[Condition, ...]
    others: tuple[Condition, ...]
    times: tuple[int, int] | None
    limit: int | None

    @classmethod
    def of(cls, body: QueryBody, indexed: tuple[str, ...]) -> "Query":
        """Read a body; raises ``InvalidRequestError``."""
        if "" in body.where:
            raise InvalidRequestError("where: a field has no name")
        wanted = [condition(field, value) for field, value in body.where.items()]
        return cls(
            body.schema,
            tuple(each for each in wanted if each.field in indexed),
            tuple(each for each in wanted if each.field not in indexed),
            times_between(body.since, body.until, None),
            body.limit,
        )

    async def run(self, latest: Latest) -> list[KeyValues]:
        """Return the records, in the order of their keys."""
        candidates = self._candidates(latest)
        if len(candidates) <= _HERE or not self.others:
            return self._chosen(candidates)
        return await asyncio.to_thread(self._chosen, candidates)

    def _candidates(self, latest: Latest) -> list[tuple[str, Record]]:
        if not self.indexed:
            return latest.items()
        found = [latest.index(self.schema, each.field).find(each) for each in self.indexed]
        keys = set(found[0]).intersection(*found[1:])
        return [(key, record) for key in keys if (record := latest.get(key)) is not None]

    def _chosen(self, candidates: Iterable[tuple[str, Record]]) -> list[KeyValues]:
        chosen = sorted(
            (item for item in candidates if self._holds(item[1])), key=lambda item: item[0]
        )
        return [KeyValues(key, [value_of(record)]) for key, record in chosen[: self.limit]]

    def _holds(self, record: Record) -> bool:
        if record.schema != self.schema:
            return False
        if self.times is not None and not self.times[0] <= record.ts <= self.times[1]:
            return False
        return all(each.holds(field_of(record.val, each.field)) for each in self.others)
