"""The writer of panes: each pane is stored once, however often its micro-batch is repeated.

All panes with the same due time are in one micro-batch. If these panes fit into one append, the
append stores the panes and moves the stream's frontier to their due time, atomically. Otherwise,
the writer first stores the position at which the panes begin, and moves the frontier with the last
append. If an append fails, the repeated micro-batch omits the panes that are already stored. See
docs/adr/0007.
"""

from collections import Counter

import numpy as np
import pyarrow as pa

from analytics_worker.row_batches import MAX_APPEND_BYTES, batches, row_sizes
from analytics_worker.spark.long_panes import MAX_PANE_ROW_BYTES, split_long_panes
from mistbow.client.agent import AgentClient
from mistbow.errors import TooLargeError
from mistbow.streams.schemas import PANES

_PARTS = "parts"
"""The stream attribute for panes stored in several appends: [due, position of the first pane]."""

_IDENTITY = ("pane", "key", "ts")


def append_panes(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    """Append panes (``PANES``) to a stream, and move the stream's frontier to their due times.

    Panes that the stream has already are omitted. ``epoch``: the epoch with which the caller has
    claimed the stream. Raises ``FencedError`` for an older epoch, and ``TooLargeError`` if the
    agent rejects even appends of ``MAX_PANE_ROW_BYTES``.
    """
    rows = split_long_panes(rows).sort_by("due")
    max_bytes = MAX_APPEND_BYTES
    while True:
        try:
            _append(agent, stream, _missing(agent, stream, rows), epoch, max_bytes)
        except TooLargeError:
            # This agent is set to accept less than by default.
            max_bytes //= 2
            if max_bytes < MAX_PANE_ROW_BYTES:
                raise
        else:
            return


def _append(agent: AgentClient, stream: str, rows: pa.Table, epoch: int, max_bytes: int) -> None:
    if not rows.num_rows:
        return
    sizes = row_sizes(rows)
    times, starts = np.unique(rows["due"].to_numpy(), return_index=True)
    bounds = [*starts.tolist(), rows.num_rows]
    for first, after in batches(np.add.reduceat(sizes, starts), max_bytes):
        begin, end, due = bounds[first], bounds[after], int(times[after - 1])
        cuts = list(batches(sizes[begin:end], max_bytes))
        if len(cuts) > 1:
            _store_first_position(agent, stream, due, epoch)
        for start, stop in cuts:
            agent.append(
                stream,
                _encoded(rows.slice(begin + start, stop - start)),
                epoch=epoch,
                frontier=due if stop == end - begin else None,
            )


def _store_first_position(agent: AgentClient, stream: str, due: int, epoch: int) -> None:
    """Store the head of the stream, at which the panes with the due time ``due`` (ms) begin.

    Does nothing if an earlier attempt has stored a position for this due time: its panes begin
    there.
    """
    info = agent.info(stream)
    parts_of = info.attributes.get(_PARTS)
    if parts_of is None or parts_of[0] != due:
        agent.advance(stream, epoch, attributes={_PARTS: [due, info.head]})


def _missing(agent: AgentClient, stream: str, rows: pa.Table) -> pa.Table:
    """Return the rows that the stream does not have yet.

    Rows that are due at or before the frontier are stored already. Of the rows that an interrupted
    attempt stored in part, the first ``n`` rows with the same (pane, key, ts) are omitted, if the
    stream has ``n`` such rows.
    """
    info = agent.info(stream)
    rows = rows.filter(pa.array(rows["due"].to_numpy() > info.frontier))
    due, position = info.attributes.get(_PARTS, (None, 0))
    repeated = [] if due is None else np.flatnonzero(rows["due"].to_numpy() == due).tolist()
    if not repeated:
        return rows
    stored = agent.read(stream, position, columns=[*_IDENTITY, "due"]).table
    stored_counts = Counter(_identities(stored.filter(pa.array(stored["due"].to_numpy() == due))))
    missing = np.ones(rows.num_rows, np.bool_)
    for row, identity in zip(repeated, _identities(rows.take(pa.array(repeated))), strict=True):
        if stored_counts[identity]:
            stored_counts[identity] -= 1
            missing[row] = False
    return rows.filter(pa.array(missing))


def _identities(rows: pa.Table) -> list[tuple[str, str, int]]:
    return list(zip(*(rows[name].to_pylist() for name in _IDENTITY), strict=True))


def _encoded(rows: pa.Table) -> pa.Table:
    columns = [
        column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
        for column, field in zip(rows.select(PANES.names).columns, PANES, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=PANES.names).combine_chunks()
