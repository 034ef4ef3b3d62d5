"""The deployments of a site: each change is stored before the change takes effect."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import msgspec

from analytics.plan.orders import Lease
from analytics_enabler.attributes import MAX_AGE_MS, RecentAttributes
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.decision_log import (
    ENABLER,
    DecisionKind,
    DecisionLog,
    listed,
    token_author,
)
from analytics_enabler.deployments.changes import changes_of, named
from analytics_enabler.deployments.deletions import Deletions
from analytics_enabler.deployments.merge import merge, moved_on
from analytics_enabler.deployments.model import (
    Deployment,
    DeploymentDeleted,
    DeploymentSaved,
    Event,
    Generation,
    Settlement,
    time_of_change,
)
from analytics_enabler.deployments.submissions import accepted, id_of_key, repeated
from analytics_enabler.deployments.versions import check_version
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.groups import Group
from analytics_enabler.journal import EventJournal
from analytics_enabler.limits import MAX_INSIGHTS
from analytics_enabler.semantics import (
    DEFAULT_SCHEDULER,
    Checked,
    Definition,
    Sites,
    check,
    parse_text,
    scope_of,
    sites_of,
)
from mistbow.clock import Clock
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    UnavailableError,
)

Frontier = Callable[[], Awaitable[int]]
"""A function that returns the frontier of the raw stream (ms since the epoch)."""

ResultsFrontier = Callable[[Group], Awaitable[int]]
"""A function that returns the frontier of a group's results (ms since the epoch).

0: the group has no results.
"""


class Deployments:
    """The deployments at this site, and the operations on them."""

    def __init__(
        self,
        journal: EventJournal[Event],
        catalogue: DataCatalogue,
        fabric_view: FabricView,
        frontier: Frontier,
        results_frontier: ResultsFrontier,
        decisions: DecisionLog,
        clock: Clock,
        scheduler: str = DEFAULT_SCHEDULER,
        domain: str = DEFAULT_DOMAIN,
        recent: RecentAttributes | None = None,
        is_standby: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the deployments of a domain.

        ``recent``: the attributes of recent points, for bare names and for warnings.
        ``is_standby``: whether this enabler is a standby, which changes no deployment.
        """
        self._journal = journal
        self._recent = recent
        self._catalogue = catalogue
        self._fabric_view = fabric_view
        self._scheduler = scheduler
        self._domain = domain
        self._frontier = frontier
        self._results_frontier = results_frontier
        self._decisions = decisions
        self._clock = clock
        self._is_standby = is_standby
        self._lock = asyncio.Lock()
        self._by_id: dict[str, Deployment] = {}
        self.deletions = Deletions()
        self._is_current = False
        self._observers: list[Callable[[], None]] = []
        self.version = 0
        """A number that increases at each change of the deployments."""
        self.is_loaded = False
        """Whether the stored deployments have been read."""

    def on_change(self, observer: Callable[[], None]) -> None:
        """Register a function that is called after each increase of ``version``."""
        self._observers.append(observer)

    async def refresh(self) -> None:
        """Read the stored events that have not been read yet."""
        async with self._lock:
            await self._refresh()

    async def reclaim(self) -> None:
        """Forget all deployments; ``refresh`` then claims the lease, and reads the whole stream."""
        async with self._lock:
            self._journal.reclaim()
            self._by_id.clear()
            self.deletions = Deletions()
            self._is_current = self.is_loaded = False

    async def check(self, queries: str, amended: str | None = None) -> Checked:
        """Return the definitions and the diagnostics of a text.

        The text may refer to running insights, except to those in the deployment ``amended``.
        """
        metrics = await self._catalogue.metrics()
        parsed = await asyncio.to_thread(parse_text, queries)
        schemas = await self._catalogue.schemas(parsed.feed_streams)
        recent = self._recent
        attributes, values, points = None, None, None
        if recent is not None:
            # The meaning of a bare name is stored, so the newest points decide it.
            attributes = await recent.names(0 if parsed.has_bare_names else MAX_AGE_MS)
            values = await recent.values()
            points = await recent.points(parsed.possible_metrics)
        fabric = self._fabric_view.whole
        sites = None if fabric is None else sites_of(fabric)
        deployed = self._definitions(but=amended) if self.is_loaded else None
        units = self._catalogue.known_units
        return await asyncio.to_thread(
            check, parsed, metrics, sites, self._scheduler, deployed, schemas, attributes, values,
            points, units,
        )  # fmt: skip

    async def submit(self, queries: str, name: str | None, key: str | None = None) -> Deployment:
        """Deploy new insights, whose results begin after the frontier of the raw stream.

        A repeated request with the same idempotency ``key`` returns the first deployment.
        """
        if key is not None:
            # Before the check: an insight that the first request referred to may be deleted by now.
            await self.refresh()
            if (first := self._by_id.get(id_of_key(key))) is not None:
                return repeated(first, queries, name)
        checked = accepted(await self.check(queries))
        async with self._changing():
            new_id = self._unused_id() if key is None else id_of_key(key)
            first = self._by_id.get(new_id)
            if first is not None:
                return repeated(first, queries, name)
            self._check_limit(checked.definitions, None)
            now = time_of_change(self._clock(), self.deletions.find(new_id).at)
            deployment = Deployment(
                id=new_id,
                name=name,
                queries=queries,
                warnings=checked.problems,
                created_at=now,
                updated_at=now,
                domain=self._domain,
                owner=token_author(),
            ).defined_by(checked.definitions, await self._frontier(), await self._scopes())
            await self._append(deployment.id, DeploymentSaved(deployment))
            insights = listed(generation.name for generation in deployment.live)
            self._record(DecisionKind.DEPLOYMENT_SUBMITTED, deployment, f"submitted: {insights}")
            return deployment

    async def amend(
        self,
        deployment_id: str,
        queries: str,
        name: str | None,
        expected: Collection[str] | None = None,
    ) -> Deployment:
        """Replace the insights of a deployment; insights with an unchanged meaning keep running.

        ``expected``: the versions that the deployment may have; None: any version. Raises
        ``PreconditionFailedError`` for another version, unless this text is in force already: the
        request may be repeated after a lost answer.
        """
        checked = accepted(await self.check(queries, amended=deployment_id))
        async with self._changing():
            old = self.find(deployment_id)
            if (old.queries, old.name) != (queries, old.name if name is None else name):
                check_version(old, expected)
            self._check_limit(checked.definitions, old)
            now = time_of_change(self._clock(), old.updated_at)
            amended = msgspec.structs.replace(
                old.defined_by(checked.definitions, await self._frontier(), await self._scopes()),
                name=old.name if name is None else name,
                queries=queries,
                warnings=checked.problems,
                updated_at=now,
                amended_at=now,
                amended_by=token_author(),
            )
            await self._append(deployment_id, DeploymentSaved(amended))
            changes = changes_of(old, amended)
            self._record(DecisionKind.DEPLOYMENT_AMENDED, amended, f"amended: {changes}")
            return amended

    async def pause(self, deployment_id: str) -> Deployment:
        """End the computation of a deployment's insights after the present frontier.

        The results up to the frontier are still computed. A paused deployment does not change.
        """
        async with self._changing():
            old = self.find(deployment_id)
            if old.paused_at is not None:
                return old
            raw = await self._frontier()
            of_feeds = {
                each.group: await self._results_frontier(each.group)
                for each in old.live
                if each.definition.feed is not None
            }
            now = time_of_change(self._clock(), old.updated_at)
            paused = old.paused(now, lambda each: of_feeds.get(each.group, raw))
            await self._append(deployment_id, DeploymentSaved(paused))
            self._record(DecisionKind.DEPLOYMENT_PAUSED, paused, "paused")
            return paused

    async def resume(self, deployment_id: str) -> Deployment:
        """Compute the insights of a paused deployment again, after the present frontier.

        A deployment that is not paused does not change.
        """
        async with self._changing():
            old = self.find(deployment_id)
            if old.paused_at is None:
                return old
            now = time_of_change(self._clock(), old.updated_at)
            resumed = old.resumed(now, await self._frontier())
            await self._append(deployment_id, DeploymentSaved(resumed))
            self._record(DecisionKind.DEPLOYMENT_RESUMED, resumed, "resumed")
            return resumed

    async def delete(self, deployment_id: str, expected: Collection[str] | None = None) -> None:
        """Stop and delete a deployment.

        Insights in other deployments that refer to the deleted insights keep running, because
        references are resolved when a text is deployed. ``expected``: the versions that the
        deployment may have; None: any version. Raises ``PreconditionFailedError`` for another
        version.
        """
        async with self._changing():
            deleted = self.find(deployment_id)
            check_version(deleted, expected)
            move = deleted.move
            also_in = move.domain if move is not None and move.is_unsettled else None
            now = time_of_change(self._clock(), deleted.updated_at)
            await self._append(deployment_id, DeploymentDeleted(now, also_in=also_in))
            self._record(DecisionKind.DEPLOYMENT_DELETED, deleted, "deleted")

    async def change(
        self, deployment_id: str, event_for: Callable[[Deployment | None], Event | None]
    ) -> bool:
        """Store the event that a function returns for the present state of a deployment.

        The function receives None if there is no such deployment, and returns None to change
        nothing. Returns whether an event was stored.
        """
        async with self._changing():
            event = event_for(self._by_id.get(deployment_id))
            if event is not None:
                await self._append(deployment_id, event)
            return event is not None

    async def settle(self, settlement: Settlement) -> None:
        """Settle and store the ended generations whose results are final."""
        # Also an event whose outcome is unknown, such as a deletion, is read before.
        async with self._changing():
            for deployment in self.all():
                settled = deployment.settled(settlement)
                if settled is not deployment:
                    await self._append(deployment.id, DeploymentSaved(settled))

    async def lease(self) -> Lease:
        """Return the lease of this enabler.

        Raises ``FencedError`` if another enabler has the lease of the stream of deployments.
        """
        return await self._journal.lease()

    async def is_in_charge(self) -> bool:
        """Return whether this enabler has read the deployments, and has the lease of the stream."""
        if not self.is_loaded:
            return False
        try:
            await self.lease()
        except FencedError:
            return False
        return True

    async def set_generation(self, generation: int) -> None:
        """Store the generation of this enabler's lease."""
        await self._journal.set_generation(generation)

    async def copy(self, deployment_id: str, event: Event) -> None:
        """Store the event of another enabler of the domain, unless it changes nothing."""
        async with self._lock:
            await self._refresh()
            present = self._by_id.get(deployment_id)
            if isinstance(event, DeploymentSaved):
                is_known = present == event.deployment
            else:
                known = self.deletions.find(deployment_id)
                is_known = present is None and (known == event or known.at > event.at)
            if not is_known:
                await self._append(deployment_id, event)

    async def adopt(self, deployment: Deployment) -> None:
        """Deploy a deployment that another enabler accepted, or add its changes to it.

        A deployment that was deleted here after the last of these changes remains deleted. If the
        deployment has moved to a larger domain, the changes move to that domain too.
        """
        async with self._changing():
            present = self._by_id.get(deployment.id)
            if present is None:
                deletion = self.deletions.find(deployment.id)
                if deletion.at > deployment.updated_at:
                    return
                adopted = moved_on(deployment.in_domain(self._domain), deletion)
            else:
                adopted = merge(present, deployment, await self._frontier())
            if adopted is present:
                return
            self._check_limit(tuple(each.definition for each in adopted.live), present)
            await self._append(deployment.id, DeploymentSaved(adopted))
            what, why = "adopted", "another enabler had accepted it"
            if present is None:
                self._record(DecisionKind.DEPLOYMENT_SUBMITTED, adopted, what, why, ENABLER)
            else:
                what, why = f"amended: {changes_of(present, adopted)}", f"{why} during a split"
                self._record(DecisionKind.DEPLOYMENT_AMENDED, adopted, what, why, ENABLER)

    @property
    def current_lease(self) -> Lease | None:
        """The lease of this enabler; None: not claimed yet, or fenced."""
        return self._journal.current_lease

    @property
    def fenced(self) -> bool:
        """Whether this enabler has detected that another enabler has the lease."""
        return self._journal.fenced

    def has(self, deployment_id: str) -> bool:
        """Return whether there is a deployment with an id."""
        return deployment_id in self._by_id

    def find(self, deployment_id: str) -> Deployment:
        """Return one deployment; raises ``NotFoundError`` for an unknown id."""
        self._check_loaded()
        try:
            return self._by_id[deployment_id]
        except KeyError:
            raise NotFoundError(
                f"there is no deployment {deployment_id}",
                hint="GET /api/insights lists the deployments.",
            ) from None

    def all(self) -> list[Deployment]:
        """Return every deployment, with the oldest deployment first."""
        self._check_loaded()
        return list(self._by_id.values())

    def running(self) -> list[Generation]:
        """Return the generations that workers compute, of all deployments."""
        return [generation for deployment in self.all() for generation in deployment.running]

    def _definitions(self, but: str | None) -> dict[str, list[Definition]]:
        """Return insight name -> definitions in force.

        The deployment with the id ``but`` is excluded; if ``but`` is None, all deployments are
        included.
        """
        definitions: dict[str, list[Definition]] = defaultdict(list)
        for deployment in self._by_id.values():
            if deployment.id != but:
                for generation in deployment.live:
                    definitions[generation.name].append(generation.definition)
        return definitions

    async def _scopes(self) -> Callable[[Definition], str | None]:
        if self._fabric_view.whole is None:
            await self._fabric_view.refresh()
        fabric = self._fabric_view.whole
        sites = Sites() if fabric is None else sites_of(fabric)
        return lambda definition: scope_of(definition, sites)

    def _check_loaded(self) -> None:
        if not self.is_loaded:
            raise UnavailableError(
                "the deployments have not been read yet",
                hint="Check that the storage agent is running.",
            )

    async def _refresh(self) -> None:
        if self._is_current:
            return
        for deployment_id, event in await self._journal.unread():
            self._apply(deployment_id, event)
        self._is_current = self.is_loaded = True
        self._notify()

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Exclude other changes, and read all events; raises ``UnavailableError`` at a standby.

        A change that began before the enabler became a standby ends before ``refresh``, which the
        standby calls before it sends its changes to the active enabler.
        """
        async with self._lock:
            if self._is_standby():
                raise UnavailableError(
                    f"this enabler has become a standby of the domain {self._domain}",
                    hint="Try again: the request is passed on to the active enabler.",
                )
            await self._refresh()
            yield

    async def _append(self, deployment_id: str, event: Event) -> None:
        try:
            await self._journal.append(deployment_id, event, self._clock())
        except BaseException:
            # The event may have been stored nevertheless, so it must be read before the next one.
            self._is_current = False
            raise
        self._apply(deployment_id, event)
        self._notify()

    def _record(
        self,
        kind: DecisionKind,
        deployment: Deployment,
        what: str,
        why: str = "a request",
        by: str | None = None,
    ) -> None:
        author = token_author() if by is None else by
        what = f"{named(deployment)} is {what}"
        self._decisions.record(kind, deployment.id, what=what, why=why, by=author)

    def _notify(self) -> None:
        self.version += 1
        for observer in self._observers:
            observer()

    def _apply(self, deployment_id: str, event: Event) -> None:
        match event:
            case DeploymentSaved(deployment):
                self._by_id[deployment_id] = deployment
                self.deletions.remove(deployment_id)
            case DeploymentDeleted():
                self._by_id.pop(deployment_id, None)
                self.deletions.add(deployment_id, event)

    def _check_limit(self, added: tuple[Definition, ...], replaced: Deployment | None) -> None:
        others = sum(len(d.live) for d in self.all() if d is not replaced)
        if others + len(added) > MAX_INSIGHTS:
            raise ConflictError(
                f"{others + len(added)} insights would run; the maximum is {MAX_INSIGHTS}",
                hint="Delete deployments that are no longer needed.",
            )

    def _unused_id(self) -> str:
        while (candidate := f"d-{secrets.token_hex(4)}") in self._by_id:
            pass
        return candidate
