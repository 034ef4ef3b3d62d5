"""The latest record of each key, in memory: by key, in the order of keys, and by indexed fields."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import pyarrow as pa

from storage_agent.records.index import FieldIndex, field_of
from storage_agent.streams.columns import as_list
from storage_agent.streams.index import EARLIEST


class Record(msgspec.Struct, frozen=True, gc=False):
    """A value as JSON, its time, and the schema that it was checked by.

    ``commit`` is the number at which the commit that it came with begins, ``created`` when that
    was (ms).
    """

    ts: int
    val: bytes
    schema: str | None
    commit: int
    created: int


class Latest:
    """Follows a stream of records; never goes back in time, and of equal times the last counts."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._first, self._before = 0, EARLIEST
        # Both are made when they are first asked for: most uses need none of them.
        self._ordered: list[str] | None = None
        self._indexes: dict[tuple[str, str], FieldIndex] = {}

    def __len__(self) -> int:
        return len(self._records)

    def apply(self, rows: pa.RecordBatch, commit: int, created: int) -> None:
        """Follow rows of the shape ``RECORDS`` that came with one commit."""
        keys, times, values = (as_list(rows[name]) for name in ("key", "ts", "val"))
        named = rows["schema"]
        schemas = [None] * len(keys) if named.null_count == len(keys) else named.to_pylist()
        for key, ts, val, schema in zip(keys, times, values, schemas, strict=True):
            known = self._records.get(key)
            if known is None or known.ts <= ts:
                self._set(key, Record(ts, val.encode(), schema, commit, created))

    def hide(self, first: int, before: int) -> None:
        """Show no record that came with a commit before ``first``, or was created ``before``."""
        self._first, self._before = first, before

    def hidden(self) -> list[str]:
        """Return the keys whose record is hidden; others that they have may not be."""
        if self._first == 0 and self._before == EARLIEST:
            return []
        return [key for key, record in self._records.items() if not self._shown(record)]

    def get(self, key: str) -> Record | None:
        """Return the latest record of a key."""
        record = self._records.get(key)
        return record if record is not None and self._shown(record) else None

    def items(self) -> list[tuple[str, Record]]:
        """Return everything, as it is now."""
        return [item for item in self._records.items() if self._shown(item[1])]

    def scan(self, start: str = "", limit: int | None = None) -> Iterator[tuple[str, Record]]:
        """Yield the records of the keys from ``start`` on, in their order."""
        if self._ordered is None:
            self._ordered = sorted(self._records)
        keys = islice(self._ordered, bisect_left(self._ordered, start), None)
        shown = ((key, record) for key in keys if (record := self.get(key)) is not None)
        yield from islice(shown, limit)

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

    def replace(self, keys: Iterable[str], found: "Latest") -> None:
        """Have the latest records of keys be those that were found, or none any more."""
        for key in keys:
            record = found.get(key)
            if record is not None:
                self._set(key, record)
            elif (gone := self._records.pop(key, None)) is not None:
                if self._ordered is not None:
                    del self._ordered[bisect_left(self._ordered, key)]
                self._index(key, gone, None)

    def _shown(self, record: Record) -> bool:
        return record.commit >= self._first and record.created >= self._before

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
