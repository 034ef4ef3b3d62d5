"""Deployments that the workers of a domain cannot run, and that a larger domain takes over."""

import msgspec

from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.directory import DomainDirectory
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.domains.role import DomainRole
from analytics_enabler.execution import ExecutionStatus
from mistbow.clock import Clock
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_INTERVAL_S = 5.0
PATIENCE_MS = 30_000
"""The time for which a task of a deployment has no worker before a larger domain takes it over."""


class Escalation:
    """Moves deployments that no worker of the domain can run to the next larger domain.

    The insights, and the times of their results, remain.
    """

    def __init__(
        self,
        directory: DomainDirectory,
        proxy: DomainProxy,
        deployments: Deployments,
        status: ExecutionStatus,
        role: DomainRole,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._proxy = proxy
        self._deployments = deployments
        self._status = status
        self._role = role
        self._clock = clock
        self._task = PeriodicTask(self._check, Schedule("escalation", _INTERVAL_S))

    async def run(self) -> None:
        """Check the deployments every few seconds, until cancelled."""
        await self._task.run()

    async def _check(self) -> None:
        if not self._role.is_active or not self._deployments.is_loaded:
            return
        larger = self._directory.larger()
        if larger is None:
            return
        domain = larger.enabler.domain
        for deployment in self._deployments.all():
            unplaced = self._status.unplaced(deployment)
            if unplaced is None or self._clock() - (unplaced.since or 0) < PATIENCE_MS:
                continue
            moved = msgspec.structs.replace(deployment, updated_at=self._clock())
            await self._proxy.adopt(larger, moved)
            reason = str(unplaced)
            await self._deployments.release(deployment.id, domain, reason)
            log.warning(
                "deployment_escalated", deployment=deployment.id, domain=domain, reason=reason
            )
