"""Submitting, amending and deleting deployments: stored first, then in force."""

import asyncio
import hashlib
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict

import msgspec

from analytics_enabler.catalogue import Catalogue
from analytics_enabler.deployments.model import Deleted, Deployment, Event, Generation, Saved
from analytics_enabler.groups import Group
from analytics_enabler.journal import Journal
from analytics_enabler.landscape import Landscape
from analytics_enabler.limits import MOST_INSIGHTS
from analytics_enabler.semantics import (
    DEFAULT_SCHEDULER,
    Checked,
    Definition,
    check,
    scope_of,
    sites_of,
    streams_named,
)
from mistbow.clock import Clock
from mistbow.errors import ConflictError, InvalidQueryError, NotFoundError, UnavailableError

Frontier = Callable[[], Awaitable[int]]
"""Returns the frontier of the raw stream, ms since the epoch."""


class Deployments:
    """All deployments of the site; every change is stored before it shows."""

    def __init__(
        self,
        journal: Journal[Event],
        catalogue: Catalogue,
        landscape: Landscape,
        frontier: Frontier,
        clock: Clock,
        scheduler: str = DEFAULT_SCHEDULER,
    ) -> None:
        self._journal = journal
        self._catalogue = catalogue
        self._landscape = landscape
        self._scheduler = scheduler
        self._frontier = frontier
        self._clock = clock
        self._lock = asyncio.Lock()
        self._by_id: dict[str, Deployment] = {}
        self._current = False
        self._ever_read = False
        self.changed = asyncio.Event()
        """Set whenever what should run may have changed; who acts on it clears it."""

    async def refresh(self) -> None:
        """Read what is stored and not known yet: everything at first, nothing mostly."""
        async with self._lock:
            await self._catch_up()

    async def check(self, queries: str, amended: str | None = None) -> Checked:
        """Say what a text means and what is wrong with it.

        It may refer to the insights that run, but not to those of the deployment that it amends.
        """
        metrics = await self._catalogue.metrics()
        named = await asyncio.to_thread(streams_named, queries)
        schemas = await self._catalogue.schemas(named)
        fabric = self._landscape.fabric
        sites = None if fabric is None else sites_of(fabric)
        deployed = self._deployed(but=amended) if self._ever_read else None
        return await asyncio.to_thread(
            check, queries, metrics, sites, self._scheduler, deployed, schemas
        )

    async def submit(self, queries: str, name: str | None, key: str | None = None) -> Deployment:
        """Deploy new insights; they start at their first tick after the raw stream's frontier.

        With an idempotency ``key`` a repeat returns what the first one deployed.
        """
        if key is not None:
            # Before the check: an insight that the first one referred to may be gone by now.
            await self.refresh()
            if (first := self._by_id.get(_id_of(key))) is not None:
                return _same(first, queries, name)
        checked = _accepted(await self.check(queries))
        async with self._lock:
            await self._catch_up()
            new_id = self._free_id() if key is None else _id_of(key)
            earlier = self._by_id.get(new_id)
            if earlier is not None:
                return _same(earlier, queries, name)
            self._check_room(checked.definitions, None)
            now = self._clock()
            deployment = Deployment(
                id=new_id,
                name=name,
                queries=queries,
                warnings=checked.problems,
                created_at=now,
                updated_at=now,
            ).defined_by(checked.definitions, await self._frontier(), await self._scopes())
            await self._append(deployment.id, Saved(deployment))
            return deployment

    async def amend(self, deployment_id: str, queries: str, name: str | None) -> Deployment:
        """Replace the insights of a deployment; those that mean the same go on undisturbed."""
        checked = _accepted(await self.check(queries, amended=deployment_id))
        async with self._lock:
            await self._catch_up()
            old = self.find(deployment_id)
            self._check_room(checked.definitions, old)
            amended = msgspec.structs.replace(
                old.defined_by(checked.definitions, await self._frontier(), await self._scopes()),
                name=old.name if name is None else name,
                queries=queries,
                warnings=checked.problems,
                updated_at=self._clock(),
            )
            await self._append(deployment_id, Saved(amended))
            return amended

    async def delete(self, deployment_id: str) -> None:
        """Stop a deployment and forget it.

        Insights of others that refer to its own go on: they have their meaning as it was.
        """
        async with self._lock:
            await self._catch_up()
            self.find(deployment_id)
            await self._append(deployment_id, Deleted())

    async def settle(self, frontiers: Mapping[Group, int]) -> None:
        """Note up to when each group's results are complete: what ended before is finished."""
        async with self._lock:
            for deployment in self.all():
                settled = deployment.settled_to(frontiers)
                if settled is not deployment:
                    await self._append(deployment.id, Saved(settled))

    async def check_owned(self) -> None:
        """Raise ``FencedError`` when another enabler has taken over."""
        await self._journal.check_owned()

    @property
    def fenced(self) -> bool:
        """Whether another enabler is known to have taken over."""
        return self._journal.fenced

    @property
    def known(self) -> bool:
        """Whether the stored state has been read."""
        return self._ever_read

    def find(self, deployment_id: str) -> Deployment:
        """Return one deployment; raises ``NotFoundError`` for an unknown id."""
        self._check_known()
        try:
            return self._by_id[deployment_id]
        except KeyError:
            raise NotFoundError(
                f"there is no deployment {deployment_id}", hint="GET /api/insights lists all."
            ) from None

    def all(self) -> list[Deployment]:
        """Return every deployment, the oldest first."""
        self._check_known()
        return list(self._by_id.values())

    def running(self) -> list[Generation]:
        """Return all that a worker has to compute."""
        return [generation for deployment in self.all() for generation in deployment.running]

    def _deployed(self, but: str | None) -> dict[str, list[Definition]]:
        found: dict[str, list[Definition]] = defaultdict(list)
        for deployment in self._by_id.values():
            if deployment.id != but:
                for generation in deployment.live:
                    found[generation.name].append(generation.definition)
        return found

    async def _scopes(self) -> Callable[[Definition], str | None]:
        sites = sites_of(self._landscape.fabric or await self._landscape.look())
        return lambda definition: scope_of(definition, sites)

    def _check_known(self) -> None:
        if not self._ever_read:
            raise UnavailableError(
                "the deployments have not been read yet", hint="Is the storage agent running?"
            )

    async def _catch_up(self) -> None:
        if self._current:
            return
        for deployment_id, event in await self._journal.unread():
            self._apply(deployment_id, event)
        self._current = self._ever_read = True
        self.changed.set()

    async def _append(self, deployment_id: str, event: Event) -> None:
        try:
            await self._journal.append(deployment_id, event, self._clock())
        except BaseException:
            # It may have been stored all the same: read it again before going on.
            self._current = False
            raise
        self._apply(deployment_id, event)
        self.changed.set()

    def _apply(self, deployment_id: str, event: Event) -> None:
        match event:
            case Saved(deployment):
                self._by_id[deployment_id] = deployment
            case Deleted():
                self._by_id.pop(deployment_id, None)

    def _check_room(self, added: tuple[Definition, ...], replaced: Deployment | None) -> None:
        others = sum(len(d.live) for d in self.all() if d is not replaced)
        if others + len(added) > MOST_INSIGHTS:
            raise ConflictError(
                f"{others + len(added)} insights would run; at most {MOST_INSIGHTS} may",
                hint="Delete deployments that are no longer needed.",
            )

    def _free_id(self) -> str:
        while (candidate := f"d-{secrets.token_hex(4)}") in self._by_id:
            pass
        return candidate


def _id_of(key: str) -> str:
    # The id tells a repeat by itself, so nothing but the deployment need be stored.
    return f"d-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _same(earlier: Deployment, queries: str, name: str | None) -> Deployment:
    if (earlier.queries, earlier.name) != (queries, name):
        raise ConflictError(
            f"this Idempotency-Key has deployed other insights, {earlier.id}",
            hint="Use a new key for each submission, and the same one for its repeats.",
        )
    return earlier


def _accepted(checked: Checked) -> Checked:
    if checked.ok:
        return checked
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    raise InvalidQueryError(
        f"line {errors[0].line}, column {errors[0].column}: {errors[0].message}{more}",
        hint=errors[0].hint,
        details=[asdict(problem) for problem in checked.problems],
    )
