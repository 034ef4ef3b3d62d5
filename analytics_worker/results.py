"""Results on their way from composition to their stream."""

import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import TooLargeError
from mistbow.streams.parts import MOST_BYTES, parts, row_sizes
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.telemetry import get_logger

log = get_logger(__name__)

MOST_VALUES = 500_000
"""So many ``values`` a result has at most, 4 MB: one that has more is told without them."""

_AT_ONCE = 20_000


def as_results(composed: pa.Table, revision: int = 0) -> pa.Table:
    """Return composed values (``COMPOSED``) as rows of a results stream.

    What has more ``values`` than fit into a request is without them; the log says so.
    """
    count = composed.num_rows
    columns = {
        **{name: composed[name] for name in composed.column_names},
        "revision": pa.repeat(pa.scalar(revision, pa.int64()), count),
        "computed_at": pa.repeat(pa.scalar(system_clock(), pa.int64()), count),
        "missing": pa.nulls(count, pa.string()),
    }
    rows = pa.table([columns[name] for name in RESULT_ROWS.names], schema=RESULT_ROWS)
    return _without_values(rows, MOST_VALUES)


def append_results(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    """Append results in parts that fit into a request; what is cut in between is written again."""
    for start, end in parts(row_sizes(rows), MOST_BYTES, _AT_ONCE):
        _append(agent, stream, rows.slice(start, end - start), epoch)


def _append(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    try:
        agent.append(stream, rows.combine_chunks(), epoch=epoch)
    except TooLargeError:
        # The agent takes less than it does unless it is told otherwise.
        half = rows.num_rows // 2
        if half:
            _append(agent, stream, rows.slice(0, half), epoch)
            _append(agent, stream, rows.slice(half), epoch)
        elif (less := _without_values(rows, 0)) is not rows:
            _append(agent, stream, less, epoch)
        else:
            raise


def _without_values(rows: pa.Table, most: int) -> pa.Table:
    """Return results without the values of those that have more than so many; the log says so."""
    lengths = pc.fill_null(pc.list_value_length(rows["values"]), 0)
    long = pc.greater(lengths, most)
    if not pc.any(long, min_count=0).as_py():
        return rows
    for row in rows.select(["insight", "key", "ts"]).filter(long).to_pylist():
        log.warning("more values than fit into a result: left out", **row)
    place = rows.column_names.index("values")
    field = rows.schema.field(place)
    return rows.set_column(
        place, field, pc.if_else(long, pa.scalar(None, field.type), rows["values"])
    )
