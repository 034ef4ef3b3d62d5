"""The copy of an active enabler's state at the site of its standby."""

from analytics.plan.orders import Lease
from analytics_enabler.deployments.model import Deployment, DeploymentSaved, Event, event_from_json
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.directory import KnownEnabler
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.execution.group_placements import (
    GroupPlacements,
    group_placement_from_json,
)
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import UnavailableError
from mistbow.streams.events import events_of
from mistbow.streams.schemas import DEPLOYMENTS, PLACEMENTS, domain_stream
from mistbow.telemetry import get_logger

log = get_logger(__name__)


class StandbyCopy:
    """Copies the deployments and placements of the active enabler to the streams at this site.

    Deployments that exist only at this site were accepted during a split, and are sent to the
    active enabler.
    """

    def __init__(
        self,
        domain: str,
        agent: AsyncAgentClient,
        deployments: Deployments,
        placements: GroupPlacements,
        proxy: DomainProxy,
    ) -> None:
        self._domain = domain
        self._agent = agent
        self._deployments = deployments
        self._placements = placements
        self._proxy = proxy
        self._of: tuple[str, int] | None = None
        self._positions: dict[str, int] = {}

    @property
    def lease(self) -> Lease | None:
        """The lease of this enabler; None: not claimed yet, or fenced."""
        return self._deployments.current_lease

    async def promote(self, above: int | None) -> None:
        """Claim the streams of this site, with a generation greater than ``above``.

        ``above``: the greatest generation of the other enablers of the domain; None: no others.
        """
        self._of = None
        await self._deployments.refresh()
        await self._placements.refresh()
        lease = await self._deployments.lease()
        if above is not None:
            await self._deployments.set_generation(max(above + 1, lease.generation))

    async def update(self, active: KnownEnabler) -> None:
        """Copy the events of the active enabler that were not copied yet."""
        try:
            await self._update(active)
        except BaseException:
            # The next call reads all events again: some of those read now may not be copied.
            self._of = None
            raise

    async def _update(self, active: KnownEnabler) -> None:
        await self._deployments.refresh()
        await self._placements.refresh()
        is_first = self._of != (active.site, active.enabler.generation)
        if is_first:
            self._positions.clear()
        deployments = await self._events(active.site, DEPLOYMENTS)
        placements = await self._events(active.site, PLACEMENTS)
        for group, text in placements.items():
            await self._placements.copy(group, group_placement_from_json(text))
        copied: dict[str, Event] = {key: event_from_json(text) for key, text in deployments.items()}
        if is_first:
            await self._resubmit(active, copied)
            for group in {each.group.id for each in self._placements.all()} - placements.keys():
                await self._placements.copy(group, None)
        for deployment, event in copied.items():
            await self._deployments.copy(deployment, event)
        self._of = (active.site, active.enabler.generation)

    async def _resubmit(self, active: KnownEnabler, known: dict[str, Event]) -> None:
        """Send the active enabler the deployments that it lacks, or has in an older version."""
        for deployment in self._deployments.all():
            event = known.get(deployment.id)
            if event is not None and not _is_newer(deployment, event):
                continue
            try:
                await self._proxy.adopt(active, deployment)
            except UnavailableError as error:
                # The deployment remains stored here, and is sent again to the next active enabler.
                log.error("resubmission_failed", deployment=deployment.id, reason=error.message)
            else:
                log.info("deployment_resubmitted", deployment=deployment.id, site=active.site)

    async def _events(self, site: str, kind: str) -> dict[str, str]:
        """Return key -> newest event of a stream, since the last call."""
        stream = domain_stream(kind, self._domain)
        rows = await self._agent.at(site).read(stream, self._positions.get(stream, 0))
        self._positions[stream] = rows.position.next
        return {key: event for _, key, event in events_of(rows.table)}


def _is_newer(deployment: Deployment, event: Event) -> bool:
    return (
        isinstance(event, DeploymentSaved) and deployment.updated_at > event.deployment.updated_at
    )
