"""The copy of an active enabler's state and decisions at the site of its standby."""

from collections.abc import Mapping

from analytics.plan.orders import Lease
from analytics_enabler.decision_log import (
    ENABLER,
    DecisionKind,
    DecisionLog,
    decision_from_json,
)
from analytics_enabler.deployments.merge import merge, moved_on
from analytics_enabler.deployments.model import (
    Deployment,
    DeploymentDeleted,
    DeploymentSaved,
    Event,
    event_from_json,
)
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.directory import KnownEnabler
from analytics_enabler.domains.proxy import DomainProxy
from analytics_enabler.execution.group_placements import (
    GroupPlacements,
    group_placement_from_json,
)
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.streams.events import events_of
from mistbow.streams.schemas import DECISIONS, DEPLOYMENTS, PLACEMENTS, domain_stream
from mistbow.telemetry import get_logger

log = get_logger(__name__)


class StandbyCopy:
    """Copies the deployments, placements and decisions of the active enabler to this site.

    Changes of deployments that exist only at this site were accepted during a split, and are sent
    to the active enabler first.
    """

    def __init__(
        self,
        domain: str,
        agent: AsyncAgentClient,
        deployments: Deployments,
        placements: GroupPlacements,
        decisions: DecisionLog,
        proxy: DomainProxy,
    ) -> None:
        self._domain = domain
        self._agent = agent
        self._deployments = deployments
        self._placements = placements
        self._decisions = decisions
        self._proxy = proxy
        self._of: tuple[str, int] | None = None
        self._positions: dict[str, int] = {}
        self._refused: set[str] = set()

    @property
    def lease(self) -> Lease | None:
        """The lease of this enabler; None: not claimed yet, or fenced."""
        return self._deployments.current_lease

    @property
    def is_fenced(self) -> bool:
        """Whether another enabler has claimed the streams of this site, and this one knows it."""
        return self._deployments.fenced

    async def reclaim(self) -> None:
        """Forget everything that was read or recorded; the next use claims the streams again.

        Another enabler has written the streams since then.
        """
        self._of = None
        self._refused.clear()
        await self._deployments.reclaim()
        self._placements.reclaim()
        await self._decisions.reclaim()

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

    def record_takeover(self, own_site: str, former_site: str, waited_s: float) -> None:
        """Record the decision to take over from the active enabler at the site ``former_site``."""
        of_site = f"at the site {former_site}"
        if former_site == own_site:
            of_site = "that had claimed the streams of this site"
        self._decisions.record(
            DecisionKind.ENABLER_TOOK_OVER,
            self._domain,
            what=f"the enabler at the site {own_site} has taken over the domain {self._domain}",
            why=f"the enabler {of_site} was not seen active for {waited_s:g} s",
            by=ENABLER,
        )

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
        changes: dict[str, Deployment | None] = {}
        if is_first:
            for group in {each.group.id for each in self._placements.all()} - placements.keys():
                await self._placements.copy(group, None)
            changes = self._changes(copied)
            await self._resubmit(active, changes)
        for deployment, event in copied.items():
            if deployment not in changes:
                await self._deployments.copy(deployment, event)
        decisions = await self._events(active.site, DECISIONS)
        await self._decisions.copy(map(decision_from_json, decisions.values()))
        # The changes are retained here until the active enabler has stored them.
        self._of = None if changes else (active.site, active.enabler.generation)

    def _changes(self, known: Mapping[str, Event]) -> dict[str, Deployment | None]:
        """Return the changes here that the active enabler lacks: id -> deployment; None: deleted.

        A deployment that was moved here, and amended there later, moves with its amendment.
        """
        changed: dict[str, Deployment | None] = {}
        for deployment in self._deployments.all():
            match known.get(deployment.id):
                case DeploymentSaved(theirs):
                    is_changed = merge(theirs, deployment, 0) is not theirs
                case DeploymentDeleted(at=at):
                    is_changed = deployment.updated_at > at > 0
                case _:
                    is_changed = True
            if is_changed:
                changed[deployment.id] = deployment
        for deleted in self._deployments.deletions.ids():
            event, deletion = known.get(deleted), self._deployments.deletions.find(deleted)
            if not isinstance(event, DeploymentSaved):
                continue
            theirs = event.deployment
            if deletion.at > theirs.updated_at:
                changed[deleted] = None
            elif (merged := merge(theirs, moved_on(theirs, deletion), 0)) is not theirs:
                changed[deleted] = merged
        return changed

    async def _resubmit(
        self, active: KnownEnabler, changes: Mapping[str, Deployment | None]
    ) -> None:
        """Send the active enabler the changes that it lacks.

        A change that it refuses remains stored here, and is sent again at the next update.
        """
        for deployment, change in sorted(changes.items()):
            try:
                if change is not None:
                    await self._proxy.adopt(active, change)
                else:
                    await self._proxy.delete(active, deployment)
            except UnavailableError as error:
                if deployment not in self._refused:
                    log.error("resubmission_failed", deployment=deployment, reason=error.message)
                self._refused.add(deployment)
            else:
                self._refused.discard(deployment)
                log.info("deployment_resubmitted", deployment=deployment, site=active.site)

    async def _events(self, site: str, kind: str) -> dict[str, str]:
        """Return key -> newest event of a stream, since the last call."""
        stream = domain_stream(kind, self._domain)
        try:
            rows = await self._agent.at(site).read(stream, self._positions.get(stream, 0))
        except NotFoundError:
            # An enabler creates its streams one after the other.
            return {}
        self._positions[stream] = rows.position.next
        return {key: event for _, key, event in events_of(rows.table)}
