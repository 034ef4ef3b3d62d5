"""Which metrics there are, for warnings about those that are not."""

import asyncio

from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import MistbowError

FRESH_MS = 5_000
PATIENCE_S = 2.0


class Catalogue:
    """The metrics that points have come of; asked for at most once in five seconds."""

    def __init__(self, agent: AsyncAgentClient, clock: Clock) -> None:
        self._agent = agent
        self._clock = clock
        self._lock = asyncio.Lock()
        self._metrics: frozenset[str] | None = None
        self._asked_at: int | None = None

    async def metrics(self) -> frozenset[str] | None:
        """Return the names of all metrics, or None when the storage agent cannot tell."""
        async with self._lock:
            now = self._clock()
            if self._asked_at is None or now - self._asked_at >= FRESH_MS:
                self._metrics = await self._ask()
                self._asked_at = now
            return self._metrics

    async def _ask(self) -> frozenset[str] | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._agent.get()
        except (MistbowError, TimeoutError):
            return None
        return frozenset(series.metric for node in answer for series in node.data)
