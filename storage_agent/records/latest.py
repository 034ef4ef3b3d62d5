"""The latest record of each key, in memory: by key, in the order of keys, and by indexed fields."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import pyarrow as pa

from storage_agent.records.index import FieldIndex, field_of
from storage_agent.streams.columns import as_list


class Record(msgspec.Struct, frozen=True, gc=False):
    """A value as JSON, its time, and the schema that it was checked by."""

    ts: int
    val: bytes
    schema: str | None = None


class Latest:
    """Follows a stream of records; never goes back in time, and of equal times the last counts."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        # Both are made when they are first asked for: most uses need none of them.
        self._ordered: list[str] | None = None
        self._indexes: dict[tuple[str, str], FieldIndex] = {}

    def __len__(self) -> int:
        return len(self._records)

    def apply(self, rows: pa.RecordBatch) -> None:
        """Follow rows of the shape ``RECORDS``."""
        keys, times, values = (as_list(rows[name]) for name in ("key", "ts", "val"))
        named = rows["schema"]
        schemas = [None] * len(keys) if named.null_count == len(keys) else named.to_pylist()
        for key, ts, val, schema in zip(keys, times, values, schemas, strict=True):
            known = self._records.get(key)
            if known is None or known.ts <= ts:
                self._set(key, Record(ts, val.encode(), schema))

    def get(self, key: str) -> Record | None:
        """Return the latest record of a key."""
        return self._records.get(key)

    def items(self) -> list[tuple[str, Record]]:
        """Return everything, as it is now."""
        return list(self._records.items())

    def scan(self, start: str = "", limit: int | None = None) -> Iterator[tuple[str, Record]]:
        """Yield the records of the keys from ``start`` on, in their order."""
        if self._ordered is None:
            self._ordered = sorted(self._records)
        begin = bisect_left(self._ordered, start)
        end = None if limit is None else begin + limit
        for key in islice(self._ordered, begin, end):
            yield key, self._records[key]

    def index(self, schema: str, field: str) -> FieldIndex:
        """Return the index of a field over the records of a schema."""
        index = self._indexes.get((schema, field))
        if index is None:
            of_schema = (item for item in self._records.items() if item[1].schema == schema)
            index = FieldIndex((key, field_of(record.val, field)) for key, record in of_schema)
            self._indexes[schema, field] = index
        return index

    def forget_indexes(self, schema: str) -> None:
        """Drop the indexes of a schema, which changed or is no more."""
        for name in [name for name in self._indexes if name[0] == schema]:
            del self._indexes[name]

    def replace(self, keys: Iterable[str], found: dict[str, Record]) -> None:
        """Set what the latest records of keys are, or that there are none any more."""
        for key in keys:
            record = found.get(key)
            if record is not None:
                self._set(key, record)
            elif (gone := self._records.pop(key, None)) is not None:
                self._ordered = None
                self._index(key, gone, None)

    def _set(self, key: str, record: Record) -> None:
        known = self._records.get(key)
        if known is None and self._ordered is not None:
            insort(self._ordered, key)
        self._records[key] = record
        if self._indexes:
            self._index(key, known, record)

    def _index(self, key: str, before: Record | None, now: Record | None) -> None:
        for (schema, field), index in self._indexes.items():
            if before is not None and before.schema == schema:
                index.remove(key)
            if now is not None and now.schema == schema:
                index.add(key, field_of(now.val, field))
