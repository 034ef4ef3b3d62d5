"""The writer of a target's frontier and attributes, with counts of the written rows."""

from typing import Any

from analytics.plan.fragments import Fragment
from analytics_worker.lifecycle.start import WriteLeases
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
        """Claim the streams again at the next write; these claims fence all earlier queries."""
        self.leases = WriteLeases(self._agent)

    def advance(
        self, fragment: Fragment, attributes: dict[str, Any], frontier: int | None = None
    ) -> None:
        """Store attributes of the fragment's target, and the frontier (ms) unless ``frontier`` is
        None.
        """
        target = fragment.target
        state = self._agent.at(target.site).advance(
            target.stream,
            self.leases.target_epoch(fragment),
            frontier=frontier,
            attributes=attributes,
        )
        self._count(state.head, state.bytes)

    def _count(self, head: int, size: int) -> None:
        if self._last is not None:
            last_head, last_size = self._last
            self.rows += max(0, head - last_head)
            # An agent counts the bytes since its start: after a restart they begin at 0 again.
            self.bytes += size - last_size if size >= last_size else size
        self._last = head, size
