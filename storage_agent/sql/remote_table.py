"""A table as DuckDB sees it in the process of a query: each scan is asked of the agent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from storage_agent.sql import pruning
from storage_agent.sql.wire import Batch, FromProcess, Next, Scan, ToProcess, decode_batch

Ask = Callable[[FromProcess], tuple[ToProcess, bytes]]
"""Sends a message to the agent, and returns its answer and the bytes that follow it."""

_numbers = count()


class RemoteTable(pads.Dataset):  # type: ignore[misc]
    """Gives DuckDB the columns that it wants, of the rows that pass its filter.

    DuckDB knows by the class alone what takes a filter and may be read more than once.
    """

    def __init__(
        self, name: str, schema: pa.Schema, words: Mapping[str, Sequence[str]], ask: Ask
    ) -> None:
        self._name = name
        self._schema = schema
        self._words = words
        self._ask = ask

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pads.Expression | None = None,
        **_: Any,
    ) -> "_Scanner":
        """Return what reads the rows that pass; called by DuckDB for each scan."""
        wanted = list(columns or self._schema.names)
        scan = Scan(next(_numbers), self._name, _needed(self._schema, wanted, filter))
        if filter is not None:
            scan = self._pruned(scan, filter)
        return _Scanner(self._schema, wanted, filter, scan, self._ask)

    def _pruned(self, scan: Scan, rows_filter: pads.Expression) -> Scan:
        schema = self._schema
        timed = "ts" in schema.names and schema.field("ts").type == pa.int64()
        least, most = pruning.times(rows_filter, schema) if timed else (None, None)
        words = {
            column: left
            for column, known in self._words.items()
            if (left := pruning.words(rows_filter, schema, column, known)) is not None
        }
        return Scan(scan.number, scan.table, scan.columns, least, most, words)


@dataclass(frozen=True, slots=True)
class _Scanner:
    """One scan."""

    schema: pa.Schema
    wanted: list[str]
    rows_filter: pads.Expression | None
    scan: Scan
    ask: Ask

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.wanted])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        answer, data = self.ask(self.scan)
        while isinstance(answer, Batch):
            rows = decode_batch(data)
            if self.rows_filter is not None:
                rows = rows.filter(self.rows_filter)
            yield rows.select(self.wanted)
            answer, data = self.ask(Next(self.scan.number))


def _needed(
    schema: pa.Schema, wanted: Sequence[str], rows_filter: pads.Expression | None
) -> list[str]:
    """Return the wanted columns and those that the filter looks at."""
    if rows_filter is None:
        return list(wanted)
    return [
        name
        for name in schema.names
        if name in wanted
        or not _fits(rows_filter, [field for field in schema if field.name != name])
    ]


def _fits(rows_filter: pads.Expression, fields: Sequence[pa.Field]) -> bool:
    try:
        pa.schema(fields).empty_table().filter(rows_filter)
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return False
    return True
