"""The sampling probabilities (chances) of a period, computed from the points of an earlier period.

Late points are ignored. All timely points have arrived, because the earlier period ended long
enough ago. Therefore every query computes the same chances, whenever it runs.
"""

from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache

from analytics.plan.nodes import Pane, fingerprint
from analytics.plan.sampling import NeymanAllocation
from analytics_worker.panes.routing import COLUMNS, route, select_metrics
from analytics_worker.sampling.point_sampling import Chances, EarlierChances, stratum_chances
from mistbow.client.agent import AgentClient

SETTLING_MS = 15_000
"""The time (ms) after a period until all timely points of the period are stored, even points ahead
of the clock.
"""

_MAX_CHANCES = 1000

Read = Callable[[str, int, int], pa.Table]
"""A function (metric, after, to) that returns the metric's rows (``COLUMNS``) with times later than
``after`` and up to ``to`` (ms).
"""

_chances: LRUCache[tuple[str, ...], Chances] = LRUCache(_MAX_CHANCES)


def previous_chances(agent: AgentClient, site: str, stream: str, end: int | None) -> EarlierChances:
    """Return a function (pane, period) -> chances, which reads the earlier points from a stream.

    ``site``, ``stream``: the site and the name of the stream. ``end``: the position before which
    rows are read; None: the head. ``period``: the end of the sampled period (ms). The process
    caches the chances, since all micro-batches of a period need the same chances.
    """

    def read(metric: str, after: int, to: int) -> pa.Table:
        return agent.read(
            stream,
            agent.seek(stream, after),
            end,
            match=select_metrics((metric,)),
            columns=COLUMNS,
            min_ts=after + 1,
            max_ts=to,
        ).table

    def chances(pane: Pane, period: int) -> Chances:
        key = (agent.url, site, stream, fingerprint((pane.source, pane.by)), str(period))
        found = _chances.get(key)
        if found is None:
            found = _chances[key] = compute_chances(read, pane, period)
        return found

    return chances


def compute_chances(read: Read, pane: Pane, period: int) -> Chances:
    """Return the chances of a pane's points for the period that ends at ``period`` (ms).

    ``read``: reads the points of the earlier period. The result is empty if the earlier period has
    no points.
    """
    sampling = pane.source.sampling
    assert isinstance(sampling, NeymanAllocation)  # noqa: S101 - only this kind of sampling needs chances
    last = period - sampling.period_ms - SETTLING_MS
    rows = read(pane.source.metric, last - sampling.period_ms, last)
    parts = list(_routed(rows, pane))
    return stratum_chances(pa.concat_tables(parts), pane, period) if parts else {}


def _routed(rows: pa.Table, pane: Pane) -> Iterator[pa.Table]:
    source = msgspec.structs.replace(pane.source, sampling=msgspec.UNSET)
    unsampled = msgspec.structs.replace(pane, source=source)
    for batch in rows.unify_dictionaries().to_batches():
        part = route(batch.filter(pc.greater(batch["ts"], batch["horizon"])), [unsampled])
        if part.num_rows:
            yield part
