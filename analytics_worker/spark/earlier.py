"""What points before a period were like, by which those of a sampled source are kept in it.

Only points that came in time count, and only of what ended long enough before the period for all
of them to be there: so whoever asks, and whenever, finds the same.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.agent import AgentClient
from mistbow.panes.routing import COLUMNS, route
from mistbow.panes.thinning import Chances, Earlier, chances_of
from mistbow.plan.nodes import Pane, fingerprint
from mistbow.plan.sampling import Allotted

LONG_ENOUGH_MS = 15_000
"""So long after, what was in time is there: of points ahead of the clock, too."""

_MOST = 1000

Read = Callable[[str, int, int], pa.Table]
"""Reads a metric's rows (``COLUMNS``) with times later than the first and up to the second."""

_found: OrderedDict[tuple[str, ...], Chances] = OrderedDict()


def earlier_in(agent: AgentClient, site: str, stream: str, end: int | None) -> Earlier:
    """Return what tells of the points of a stream before the number ``end``.

    What this process has found is kept: micro-batches of a period ask for the same.
    """

    def read(metric: str, after: int, to: int) -> pa.Table:
        return agent.read(
            stream,
            agent.seek(stream, after),
            end,
            match={"metric": [metric]},
            columns=COLUMNS,
            min_ts=after + 1,
            max_ts=to,
        ).table

    def earlier(pane: Pane, period: int) -> Chances:
        name = (agent.url, site, stream, fingerprint((pane.source, pane.by)), str(period))
        if name not in _found:
            _found[name] = found_in(read, pane, period)
            while len(_found) > _MOST:
                _found.popitem(last=False)
        return _found[name]

    return earlier


def found_in(read: Read, pane: Pane, period: int) -> Chances:
    """Return the chances in the period that ends then, in ms, of a pane's points."""
    sampling = pane.source.sampling
    assert isinstance(sampling, Allotted)  # noqa: S101 - no other one asks
    last = period - sampling.period_ms - LONG_ENOUGH_MS
    rows = read(pane.source.metric, last - sampling.period_ms, last)
    parts = list(_routed(rows, pane))
    return chances_of(pa.concat_tables(parts), pane, period) if parts else {}


def _routed(rows: pa.Table, pane: Pane) -> Iterator[pa.Table]:
    source = msgspec.structs.replace(pane.source, sampling=msgspec.UNSET)
    whole = msgspec.structs.replace(pane, source=source)
    for batch in rows.unify_dictionaries().to_batches():
        part = route(batch.filter(pc.greater(batch["ts"], batch["horizon"])), [whole])
        if part.num_rows:
            yield part
