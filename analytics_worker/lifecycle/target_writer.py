"""The writer of a target's frontier and attributes, with counts of the written rows."""

import msgspec

from analytics.plan.fragments import Fragment, Merge, Partial, Whole
from analytics.plan.target_attributes import TargetAttributes
from analytics_worker.lifecycle.start import WriteLeases
from analytics_worker.streaming_library import EngineQuery
from mistbow.client.agent import AgentClient


class TargetWriter:
    """Writes the frontier and the attributes of a target, under ``leases``.

    ``rows``, ``bytes``: the rows and bytes that were appended to the target since the first write.
    """

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self._last: tuple[int, int] | None = None
        self.leases = WriteLeases(agent)
        self.rows = 0
        self.bytes = 0

    def renew_leases(self) -> None:
        """Claim the streams again at the next claim, which fences all earlier queries."""
        self.leases = WriteLeases(self._agent)

    def advance(
        self, fragment: Fragment, attributes: TargetAttributes, frontier: int | None = None
    ) -> None:
        """Store attributes of the fragment's target, and the frontier (ms) unless ``frontier`` is
        None.
        """
        target = fragment.target
        state = self._agent.at(target.site).advance(
            target.stream,
            self.leases.claim(fragment)[target.stream],
            frontier=frontier,
            attributes=attributes.stored(),
        )
        self._count(state.head, state.bytes)

    def _count(self, head: int, size: int) -> None:
        if self._last is not None:
            last_head, last_size = self._last
            self.rows += max(0, head - last_head)
            # An agent counts the bytes since its start: after a restart they begin at 0 again.
            self.bytes += size - last_size if size >= last_size else size
        self._last = head, size


def read_positions(query: EngineQuery) -> TargetAttributes:
    """Return the positions at which a new query can resume, as attributes of the target.

    They are empty for a whole fragment, and while a partial fragment has no such position.
    """
    fragment = query.fragment
    match fragment:
        case Partial():
            # A query that resumes here still reads all points of the panes that close after the
            # frontier.
            read = query.read_to(query.frontier - fragment.lookback_ms)
            return TargetAttributes(read=None if read is None else {fragment.source.stream: read})
        case Merge():
            read = query.read_to() or {}
            streams = {location.data_site: location.stream for location in fragment.sources}
            return TargetAttributes(read={streams[site]: each for site, each in read.items()})
        case _:
            return TargetAttributes()


def with_insights(attributes: TargetAttributes, fragment: Whole | Merge) -> TargetAttributes:
    """Return attributes with the insights that a fragment computes, and with their sites."""
    return msgspec.structs.replace(
        attributes,
        insights=tuple(insight.uid for insight in fragment.plan.insights),
        sites=tuple(location.data_site for location in fragment.sources),
    )
