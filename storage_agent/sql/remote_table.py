"""A table in the query process; the process reads the table's rows from the agent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from storage_agent.sql import pruning
from storage_agent.sql.messages import (
    BatchFollows,
    FromProcess,
    NextBatch,
    Scan,
    ToProcess,
    decode_batch,
)

CallAgent = Callable[[FromProcess], tuple[ToProcess, bytes]]
"""A function that sends a message to the agent; returns the reply and the reply's payload."""

_scan_numbers = count()


class RemoteTable(pads.Dataset):  # type: ignore[misc]
    """A table for DuckDB, which returns the columns and rows that a scan selects.

    The class is a ``Dataset``, because DuckDB pushes filters down to datasets, and can scan them
    repeatedly.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        column_values: Mapping[str, Sequence[str]],
        call: CallAgent,
    ) -> None:
        self._name = name
        self._schema = schema
        self._column_values = column_values
        self._call = call

    @property
    def schema(self) -> pa.Schema:
        """The schema of the table, with all columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pads.Expression | None = None,
        **_: Any,
    ) -> "_Scanner":
        """Return a scanner of the rows that match ``filter``.

        DuckDB calls this method for each scan.
        """
        selected = list(columns or self._schema.names)
        scan = Scan(
            next(_scan_numbers), self._name, _needed_columns(self._schema, selected, filter)
        )
        if filter is not None:
            scan = self._prune(scan, filter)
        return _Scanner(self._schema, selected, filter, scan, self._call)

    def _prune(self, scan: Scan, rows_filter: pads.Expression) -> Scan:
        schema = self._schema
        timed = "ts" in schema.names and schema.field("ts").type == pa.int64()
        first, last = pruning.time_bounds(rows_filter, schema) if timed else (None, None)
        column_values = {
            column: matching
            for column, values in self._column_values.items()
            if (matching := pruning.matching_values(rows_filter, schema, column, values))
            is not None
        }
        return Scan(scan.number, scan.table, scan.columns, first, last, column_values)


@dataclass(frozen=True, slots=True)
class _Scanner:
    """One scan of a table, with the methods of Arrow's ``Scanner`` that DuckDB calls."""

    schema: pa.Schema
    columns: list[str]
    rows_filter: pads.Expression | None
    scan: Scan
    call: CallAgent

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reply, data = self.call(self.scan)
        while isinstance(reply, BatchFollows):
            rows = decode_batch(data)
            if self.rows_filter is not None:
                rows = rows.filter(self.rows_filter)
            yield rows.select(self.columns)
            reply, data = self.call(NextBatch(self.scan.number))


def _needed_columns(
    schema: pa.Schema, selected: Sequence[str], rows_filter: pads.Expression | None
) -> list[str]:
    """Return the names of the selected columns and of the columns that the filter reads."""
    if rows_filter is None:
        return list(selected)
    return [
        name
        for name in schema.names
        if name in selected
        or not _applies(rows_filter, [field for field in schema if field.name != name])
    ]


def _applies(rows_filter: pads.Expression, fields: Sequence[pa.Field]) -> bool:
    try:
        pa.schema(fields).empty_table().filter(rows_filter)
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return False
    return True
