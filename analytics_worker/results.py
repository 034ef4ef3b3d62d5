"""Results on their way from composition to their stream."""

import pyarrow as pa

from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.streams.schemas import RESULT_ROWS

_AT_ONCE = 20_000


def as_results(composed: pa.Table, revision: int = 0) -> pa.Table:
    """Return composed values (``COMPOSED``) as rows of a results stream."""
    count = composed.num_rows
    columns = {
        **{name: composed[name] for name in composed.column_names},
        "revision": pa.repeat(pa.scalar(revision, pa.int64()), count),
        "computed_at": pa.repeat(pa.scalar(system_clock(), pa.int64()), count),
        "missing": pa.nulls(count, pa.string()),
    }
    return pa.table([columns[name] for name in RESULT_ROWS.names], schema=RESULT_ROWS)


def append_results(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    """Append results in parts that fit into a request; what is cut in between is written again."""
    for start in range(0, rows.num_rows, _AT_ONCE):
        agent.append(stream, rows.slice(start, _AT_ONCE).combine_chunks(), epoch=epoch)
