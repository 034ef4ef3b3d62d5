"""Converts values to rows of a results stream, and appends these rows to the stream."""

import pyarrow as pa
import pyarrow.compute as pc

from analytics_worker.row_batches import MAX_APPEND_BYTES, batches, row_sizes
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import TooLargeError
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

MAX_VALUES = 500_000
"""The greatest length of the list ``values`` of a result (4 MB); a longer list is not stored."""

_MAX_APPEND_ROWS = 20_000


def as_results(values: pa.Table, revision: int = 0) -> pa.Table:
    """Return the values of insights (``INSIGHT_VALUES``) as rows of a results stream.

    If the list ``values`` of a row is longer than ``MAX_VALUES``, the list is replaced by null, and
    an event is logged.
    """
    count = values.num_rows
    columns = {
        **{name: values[name] for name in values.column_names},
        "revision": pa.repeat(pa.scalar(revision, pa.int64()), count),
        "computed_at": pa.repeat(pa.scalar(system_clock(), pa.int64()), count),
        "missing": pa.nulls(count, pa.string()),
    }
    rows = pa.table([columns[name] for name in RESULT_ROWS.names], schema=RESULT_ROWS)
    return _without_values(rows, MAX_VALUES)


def append_results(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    """Append results to a stream, in several requests of limited size.

    If a request fails, earlier requests have already stored some results; the caller must append
    all results again.
    """
    for start, end in batches(row_sizes(rows), MAX_APPEND_BYTES, _MAX_APPEND_ROWS):
        _append(agent, stream, rows.slice(start, end - start), epoch)


def _append(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    try:
        agent.append(stream, rows.combine_chunks(), epoch=epoch)
    except TooLargeError:
        # This agent is set to accept less than by default.
        half = rows.num_rows // 2
        if half:
            _append(agent, stream, rows.slice(0, half), epoch)
            _append(agent, stream, rows.slice(half), epoch)
        elif (smaller := _without_values(rows, 0)) is not rows:
            _append(agent, stream, smaller, epoch)
        else:
            raise


def _without_values(rows: pa.Table, max_values: int) -> pa.Table:
    """Return results with null for each list ``values`` that has more than ``max_values`` numbers.

    An event is logged for each of these rows.
    """
    lengths = pc.fill_null(pc.list_value_length(rows["values"]), 0)
    long = pc.greater(lengths, max_values)
    if not pc.any(long, min_count=0).as_py():
        return rows
    for row in rows.select(["insight", "key", "ts"]).filter(long).to_pylist():
        log.warning("result_values_dropped", **row)
    index = rows.column_names.index("values")
    field = rows.schema.field(index)
    return rows.set_column(
        index, field, pc.if_else(long, pa.scalar(None, field.type), rows["values"])
    )
