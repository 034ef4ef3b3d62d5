"""The statuses that the agents of all sites report to the enabler: warnings, and free disk."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from mistbow.client.agent import AsyncAgentClient
from mistbow.client.operation_model import SiteStatus
from mistbow.clock import monotonic_clock
from mistbow.errors import MistbowError
from mistbow.runtime.periodic import PeriodicTask, Schedule

INTERVAL_S = 5.0
MIN_AGE_MS = 15_000
"""The age (ms) below which a status is not read again."""

MAX_READS = 16
"""The maximum number of sites that are read in an interval, those with the oldest status first."""

PATIENCE_S = 3.0


class SiteStatuses:
    """Reads the status of each reachable site; ``reachable``: returns their names."""

    def __init__(self, agent: AsyncAgentClient, reachable: Callable[[], Iterable[str]]) -> None:
        self._agent = agent
        self._reachable = reachable
        self._read_at: dict[str, int] = {}
        self._statuses: dict[str, SiteStatus] = {}
        self._task = PeriodicTask(self.refresh, Schedule("site_statuses", INTERVAL_S))

    @property
    def latest(self) -> Mapping[str, SiteStatus]:
        """Site -> its latest status, of those reachable sites that have answered."""
        return self._statuses

    async def run(self) -> None:
        """Read statuses until cancelled."""
        await self._task.run()

    async def refresh(self) -> None:
        """Read the sites whose status is the oldest; forget those that are unreachable."""
        sites, now = set(self._reachable()), monotonic_clock()
        self._read_at = {site: at for site, at in self._read_at.items() if site in sites}
        self._statuses = {site: each for site, each in self._statuses.items() if site in sites}
        due = [site for site in sites if now - self._read_at.get(site, -MIN_AGE_MS) >= MIN_AGE_MS]
        due.sort(key=lambda site: (self._read_at.get(site, 0), site))
        await asyncio.gather(*(self._read(site) for site in due[:MAX_READS]))

    async def _read(self, site: str) -> None:
        self._read_at[site] = monotonic_clock()
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._statuses[site] = await self._agent.at(site).operations.status()
        except (MistbowError, TimeoutError):
            # A site that does not answer is unreachable soon, which is a problem of its own.
            self._statuses.pop(site, None)
