"""Panes on their way to their stream: each is stored once, however often it is tried.

All panes that are due by a time come in one micro-batch. Those that fit into an append are stored
with that time as the stream's frontier, all of them or none. Where those of one time alone do not
fit, it is noted first where they begin, and the frontier moves with the last of them: whoever
comes again, because it failed in between, leaves out what is there. See docs/adr/0007.
"""

from collections import Counter

import numpy as np
import pyarrow as pa

from mistbow.client.agent import AgentClient
from mistbow.errors import TooLargeError
from mistbow.streams.long_panes import PIECE_BYTES, in_pieces
from mistbow.streams.parts import MOST_BYTES, parts, row_sizes
from mistbow.streams.schemas import PANES

_NOTE = "parts"
"""The attribute of the stream: when the panes are due that are stored in parts, and the number
from which on they are."""

_NAME = ("pane", "key", "ts")


def append_panes(agent: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    """Store panes (``PANES``), and how far they are complete; what is there is left out."""
    rows = in_pieces(rows).sort_by("due")
    most_bytes = MOST_BYTES
    while True:
        try:
            _append(agent, stream, _missing(agent, stream, rows), epoch, most_bytes)
        except TooLargeError:
            # The agent takes less than it does unless it is told otherwise.
            most_bytes //= 2
            if most_bytes < PIECE_BYTES:
                raise
        else:
            return


def _append(agent: AgentClient, stream: str, rows: pa.Table, epoch: int, most_bytes: int) -> None:
    if not rows.num_rows:
        return
    sizes = row_sizes(rows)
    times, starts = np.unique(rows["due"].to_numpy(), return_index=True)
    bounds = [*starts.tolist(), rows.num_rows]
    for first, after in parts(np.add.reduceat(sizes, starts), most_bytes):
        begin, end, due = bounds[first], bounds[after], int(times[after - 1])
        cuts = list(parts(sizes[begin:end], most_bytes))
        if len(cuts) > 1:
            _note(agent, stream, due, epoch)
        for start, stop in cuts:
            agent.append(
                stream,
                _encoded(rows.slice(begin + start, stop - start)),
                epoch=epoch,
                frontier=due if stop == end - begin else None,
            )


def _note(agent: AgentClient, stream: str, due: int, epoch: int) -> None:
    """Note that panes come in parts from now on, unless some of them are there already."""
    info = agent.info(stream)
    known = info.attributes.get(_NOTE)
    if known is None or known[0] != due:
        agent.advance(stream, epoch, attributes={_NOTE: [due, info.head]})


def _missing(agent: AgentClient, stream: str, rows: pa.Table) -> pa.Table:
    """Return the rows that are not stored yet: of the same name, the first ones are."""
    info = agent.info(stream)
    rows = rows.filter(pa.array(rows["due"].to_numpy() > info.frontier))
    due, number = info.attributes.get(_NOTE, (None, 0))
    again = [] if due is None else np.flatnonzero(rows["due"].to_numpy() == due).tolist()
    if not again:
        return rows
    stored = agent.read(stream, number, columns=[*_NAME, "due"]).table
    there = Counter(_names(stored.filter(pa.array(stored["due"].to_numpy() == due))))
    missing = np.ones(rows.num_rows, np.bool_)
    for row, name in zip(again, _names(rows.take(pa.array(again))), strict=True):
        if there[name]:
            there[name] -= 1
            missing[row] = False
    return rows.filter(pa.array(missing))


def _names(rows: pa.Table) -> list[tuple[str, str, int]]:
    return list(zip(*(rows[name].to_pylist() for name in _NAME), strict=True))


def _encoded(rows: pa.Table) -> pa.Table:
    columns = [
        column.dictionary_encode() if pa.types.is_dictionary(wanted.type) else column
        for column, wanted in zip(rows.select(PANES.names).columns, PANES, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=PANES.names).combine_chunks()
