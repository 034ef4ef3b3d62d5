"""The announcement that an enabler sends to the agent of its site each second."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from analytics.plan.orders import Lease
from mistbow.auth.identity import IdentityFile
from mistbow.client.agent import AsyncAgentClient
from mistbow.domains import Selector
from mistbow.errors import MistbowError
from mistbow.fabric import Enabler
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_PERIOD_S = 1.0


class EnablerAnnouncer:
    """Announces the enabler while it has a lease, and reports when it stops.

    ``sites``: returns the sites of its domain. ``lease``: reads the lease of the enabler on its
    domain; None while the enabler starts, or is fenced, since the announcement at its site is then
    that of another enabler. ``is_active``: returns whether the enabler
    is active. ``identity``: the identity of the enabler; None: no identity.
    """

    def __init__(
        self,
        agent: AsyncAgentClient,
        enabler: Enabler,
        sites: Callable[[], Selector],
        lease: Callable[[], Awaitable[Lease | None]],
        is_active: Callable[[], bool],
        identity: IdentityFile | None = None,
    ) -> None:
        self._agent = agent
        self._enabler = enabler
        self._sites = sites
        self._lease = lease
        self._is_active = is_active
        self._identity = identity
        self._task = PeriodicTask(self._announce, Schedule("enabler_announcement", _PERIOD_S))

    async def run(self) -> None:
        """Announce the enabler until cancelled."""
        try:
            await self._task.run()
        finally:
            await self._leave()

    async def _announce(self) -> None:
        lease = await self._lease()
        if lease is not None:
            enabler = msgspec.structs.replace(
                self._enabler,
                sites=self._sites(),
                generation=lease.generation,
                epoch=lease.epoch,
                is_active=self._is_active(),
                credential="" if self._identity is None else self._identity.current().text,
            )
            await self._agent.announce_enabler(enabler)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(_PERIOD_S):
                if await self._lease() is None:
                    return
                await self._agent.remove_enabler(self._enabler.domain)
        except (MistbowError, TimeoutError) as error:
            log.info("enabler_leave_failed", reason=str(error))
