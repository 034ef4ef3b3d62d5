"""The copy of an active enabler's state and decisions at the site of its standby."""

import time
from collections.abc import Callable, Mapping

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
from analytics_enabler.domains.proxy import DomainProxy, EnablerRefusedError
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

RETRY_S = 30.0
"""The time after which a standby sends a change again that the active enabler has refused."""


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
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._domain = domain
        self._agent = agent
        self._deployments = deployments
        self._placements = placements
        self._decisions = decisions
        self._proxy = proxy
        self._of: tuple[str, int] | None = None
        self._copied_site: str | None = None
        """The site whose active enabler this standby has copied completely; None: no such site."""
        self._positions: dict[str, int] = {}
        self._lacking: dict[str, Event | None] = {}
        """The newest events of the active enabler about the deployments whose changes it lacks."""
        self._refused: dict[str, float] = {}
        """Deployment -> the time (s) from which its change, which was not accepted, is sent again.
        """
        self._timer = timer

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
        # A later copy is one of a later reign, with other changes.
        self._of = self._copied_site = None
        await self._deployments.refresh()
        await self._placements.refresh()
        lease = await self._deployments.lease()
        if above is not None:
            await self._deployments.set_generation(max(above + 1, lease.generation))

    async def promote_below(self, generation: int) -> None:
        """Claim the streams of this site, whose copy is not complete.

        A stream that has just begun gets a generation less than ``generation``, that of the enabler
        whose changes may be missing: the workers that obey this enabler refuse the orders.
        """
        await self.promote(None)
        lease = await self._deployments.lease()
        if lease.generation >= generation and not self._has_events():
            await self._deployments.set_generation(max(generation - 1, 0))

    async def has_all_of(self, active: KnownEnabler) -> bool:
        """Return whether the changes of an enabler that was active last are stored here.

        They are if they were copied, or if this enabler was active later: a standby has a lesser
        generation than the enabler that it follows, and one that takes over has a greater one.
        """
        if active.site == self._copied_site:
            return True
        await self._deployments.refresh()
        lease = await self._deployments.lease()
        theirs = Lease(active.enabler.generation, active.enabler.epoch)
        return lease > theirs and self._has_events()

    def _has_events(self) -> bool:
        return bool(self._deployments.all() or self._deployments.deletions.ids())

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
        lease = self._deployments.current_lease
        if lease is not None and lease.generation >= active.enabler.generation:
            # Workers that obey the active enabler must not obey this one before it has a copy.
            await self._deployments.set_generation(max(active.enabler.generation - 1, 0))
        is_first = self._of != (active.site, active.enabler.generation)
        if is_first:
            self._positions.clear()
        deployments = await self._events(active.site, DEPLOYMENTS)
        placements = await self._events(active.site, PLACEMENTS)
        for group, text in placements.items():
            await self._placements.copy(group, group_placement_from_json(text))
        copied = {key: event_from_json(text) for key, text in deployments.items()}
        if is_first:
            for group in {each.group.id for each in self._placements.all()} - placements.keys():
                await self._placements.copy(group, None)
            self._lacking = dict.fromkeys(self._changes(copied))
        await self._copy_deployments(active, copied)
        decisions = await self._events(active.site, DECISIONS)
        await self._decisions.copy(map(decision_from_json, decisions.values()))
        self._of = active.site, active.enabler.generation
        self._copied_site = active.site

    async def _copy_deployments(self, active: KnownEnabler, copied: Mapping[str, Event]) -> None:
        """Copy events, except those of deployments whose changes the active enabler lacks.

        These changes are retained here until the active enabler has stored them.
        """
        self._lacking |= {key: event for key, event in copied.items() if key in self._lacking}
        theirs = {key: event for key, event in self._lacking.items() if event is not None}
        found = self._changes(theirs) if self._lacking else {}
        changes = {key: change for key, change in found.items() if key in self._lacking}
        self._lacking = {key: self._lacking[key] for key in changes}
        await self._resubmit(active, changes)
        for deployment, event in {**copied, **theirs}.items():
            if deployment not in changes:
                await self._deployments.copy(deployment, event)

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

        A change that it does not accept remains stored here. A refused change is sent again after
        ``RETRY_S``, another one at the next update.
        """
        self._refused = {key: at for key, at in self._refused.items() if key in changes}
        for deployment, change in sorted(changes.items()):
            if self._timer() < self._refused.get(deployment, 0.0):
                continue
            try:
                if change is not None:
                    await self._proxy.adopt(active, change)
                else:
                    await self._proxy.delete(active, deployment)
            except UnavailableError as error:
                if deployment not in self._refused:
                    log.error("resubmission_failed", deployment=deployment, reason=error.message)
                is_refused = isinstance(error, EnablerRefusedError)
                self._refused[deployment] = self._timer() + RETRY_S if is_refused else 0.0
            else:
                self._refused.pop(deployment, None)
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
