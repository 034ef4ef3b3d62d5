"""From what is deployed to orders for workers: again and again, and on every change."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from analytics_enabler.catalogue import Catalogue
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.execution.crew import Connect, Crew, Keeper, Orders
from analytics_enabler.execution.planner import Planner, tasks_of
from analytics_enabler.execution.progress import (
    Progress,
    Reached,
    burdens,
    progress_of,
    runs,
    worst,
)
from analytics_enabler.execution.standing import Standings
from analytics_enabler.fragments import MERGE, WHOLE, Tasks, result_of
from analytics_enabler.groups import Group
from analytics_enabler.instruments import INSIGHTS, RECONCILE_ERRORS
from analytics_enabler.landscape import Landscape
from analytics_enabler.placing.fog import fog_of, workers_of
from analytics_enabler.placing.jobs import job_of, question_of
from analytics_enabler.placing.placer import Placer
from analytics_enabler.placing.traffic import Series
from mistbow.errors import FencedError, MistbowError
from mistbow.fabric import Fabric
from mistbow.fog.jobs import Job
from mistbow.plan.fragments import Fragment, Merge
from mistbow.plan.nodes import Plan
from mistbow.plan.status import FragmentStatus
from mistbow.schedulers.guard import Outcome
from mistbow.telemetry import get_logger

log = get_logger(__name__)

DEBOUNCE_S = 0.2
INTERVAL_S = 0.5
"""A worker's death is to be noticed, and what it ran to run elsewhere, within a second."""


class Execution:
    """Decides what runs where, and has the crew see to it."""

    def __init__(
        self,
        deployments: Deployments,
        landscape: Landscape,
        standings: Standings,
        planner: Planner,
        placer: Placer,
        catalogue: Catalogue,
        connect: Connect,
    ) -> None:
        self._deployments = deployments
        self._landscape = landscape
        self._standings = standings
        self._catalogue = catalogue
        self.planner = planner
        self.placer = placer
        self.crew = Crew(connect, deployments.check_owned, self._wake)
        self._woken = asyncio.Event()
        self._planned_for: tuple[str, ...] | None = None
        self._jobs: list[Job] = []
        self.problem: str | None = None
        """Why workers may not run what they should; None when they do."""

    async def run(self) -> None:
        """Reconcile on every change, and all the time, until cancelled."""
        try:
            while True:
                await self._attempt()
                await self._pause()
        finally:
            await self.crew.close()

    def progress(self, generation: Generation) -> Reached:
        """Return how far an insight is."""
        group = generation.group
        statuses = [self.status(group, task) for task in self.planner.tasks.get(group, ())]
        parts = [status for status in statuses if status is not None]
        return worst([Reached(self._progress(generation)), *burdens(parts)])

    def summary(self, deployment: Deployment) -> Reached:
        """Return how far a deployment is: as far as the least of its insights."""
        return worst([self.progress(generation) for generation in deployment.live])

    def error(self, deployment: Deployment) -> str | None:
        """Return what a deployment's insights suffer from, if anything."""
        groups = {generation.group for generation in deployment.live}
        found = [error for group in groups for error in self._errors(group)]
        found += [
            f"{generation.name}: {trouble}"
            for generation in deployment.live
            for trouble in self._troubles(generation)
        ]
        return next(iter(sorted(set(found))), self.problem)

    def node(self, group: Group, task: str) -> str | None:
        """Return the node on which a task of a group is placed, if it is."""
        standing = self._standings.get(group)
        return None if standing is None else standing.nodes.get(task)

    def status(self, group: Group, task: str) -> FragmentStatus | None:
        """Return what the worker says of a task of a group, if it runs."""
        keeper = self._keeper(group, task)
        fragment = self.planner.tasks.get(group, {}).get(task)
        if keeper is None or fragment is None:
            return None
        return keeper.statuses.get(fragment.id)

    async def would_be(self, group: Group, plan: Plan) -> Tasks:
        """Return the tasks that a group would have if its plan were this one."""
        sites = self._landscape.sites
        standing = await self.planner.standing(group, plan, sites)
        fabric = self._landscape.fabric
        own = sites[0] if fabric is None else fabric.site
        return tasks_of(standing, plan, own, self.planner.patience_ms)

    async def would_place(
        self, tasks: Mapping[Group, Tasks], fabric: Fabric, series: Sequence[Series]
    ) -> Outcome:
        """Return what would be decided if these groups had these tasks."""
        everything = {**self.planner.tasks, **tasks}
        jobs = [job_of(group, each, fabric.site, series) for group, each in everything.items()]
        return await self.placer.would(jobs, fog_of(fabric, self.crew.dead), self._current())

    def runs(self, fragment_id: str) -> bool:
        """Return whether some worker runs a fragment."""
        return any(fragment_id in keeper.statuses for _, keeper in self.crew.all())

    def measured(self, fragment_id: str) -> float | None:
        """Return how many bytes a second a fragment that runs has written lately, if known."""
        for _, keeper in self.crew.all():
            if fragment_id in keeper.meters:
                return keeper.meters[fragment_id].rate
        return None

    def _progress(self, generation: Generation) -> Progress:
        tasks = self.planner.tasks.get(generation.group)
        if tasks is None:
            return Progress.WAITING if self.problem is not None else Progress.STARTING
        task = MERGE if MERGE in tasks else WHOLE
        if self.node(generation.group, task) is None:
            refused = any(self._refusals(generation.group, task))
            return Progress.WAITING if refused else Progress.STARTING
        keeper = self._keeper(generation.group, task)
        if keeper is None or (keeper.problem is not None and not keeper.statuses):
            return Progress.WAITING
        return progress_of(generation, result_of(tasks), keeper.statuses.get(generation.group.id))

    def _errors(self, group: Group) -> Iterator[str]:
        for task in self.planner.tasks.get(group, ()):
            status = self.status(group, task)
            if status is not None and status.error is not None:
                yield status.error
            keeper = self._keeper(group, task)
            if keeper is not None and keeper.problem is not None:
                yield keeper.problem
            if self.node(group, task) is None:
                yield from self._refusals(group, task)
        question = question_of(group)
        problem = self.placer.outcome.problems.get(question)
        if problem is not None:
            yield f"scheduler {question}: {problem}"

    def _troubles(self, generation: Generation) -> Iterator[str]:
        for task in self.planner.tasks.get(generation.group, ()):
            status = self.status(generation.group, task)
            if status is not None and generation.uid in status.troubles:
                yield status.troubles[generation.uid]

    def _refusals(self, group: Group, task: str) -> Iterator[str]:
        for refusal in self.placer.refusals(group.id):
            if refusal.task == task:
                on = "" if refusal.node is None else f" on {refusal.node}"
                yield f"{group.id}, {task}{on}: {refusal.reason}"

    def _keeper(self, group: Group, task: str) -> Keeper | None:
        node = self.node(group, task)
        return None if node is None else self.crew.get(node)

    async def _attempt(self) -> None:
        try:
            await self._reconcile()
            self.problem = None
        except FencedError as error:
            self._note(error.message)
            await self._claim_again()
        except MistbowError as error:
            self._note(error.message)
        except Exception as error:
            # A fault of ours: the loop must live, or no later change would reach the workers.
            log.exception("reconciling failed")
            self._note(f"{type(error).__name__}: {error}")

    async def _claim_again(self) -> None:
        # Who has the deployments has the placements: of two that start at once, each may have
        # claimed one of the two streams last.
        try:
            await self._deployments.check_owned()
        except MistbowError:
            return
        self._standings.claim_again()
        self._planned_for = None

    async def _pause(self) -> None:
        changes = [
            asyncio.ensure_future(event.wait())
            for event in (self._deployments.changed, self._woken)
        ]
        await asyncio.wait(changes, timeout=INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
        for change in changes:
            change.cancel()
        self._woken.clear()
        if self._deployments.changed.is_set():
            # Several submissions in a row make one change.
            await asyncio.sleep(DEBOUNCE_S)

    async def _reconcile(self) -> None:
        await self._deployments.refresh()
        await self._standings.refresh()
        self._landscape.remember(
            site for standing in self._standings.all() for site in standing.sites
        )
        fabric = await self._landscape.look()
        await self.crew.muster({worker.name: worker for _, worker in workers_of(fabric)})
        INSIGHTS.set(sum(len(deployment.live) for deployment in self._deployments.all()))
        if self._deployments.changed.is_set() or self._landscape.sites != self._planned_for:
            await self._plan(fabric)
        await self._place(fabric)
        self._order()
        await self._deployments.settle(dict(self._frontiers()))

    async def _plan(self, fabric: Fabric) -> None:
        # Should it fail, it is to be tried again.
        self._planned_for = None
        self._deployments.changed.clear()
        sites = self._landscape.sites
        await self.planner.plan(self._deployments.running(), sites, fabric.site)
        series = (await self._catalogue.series() or ()) if self.planner.tasks else ()
        self._jobs = [
            job_of(group, tasks, fabric.site, series) for group, tasks in self.planner.tasks.items()
        ]
        self._planned_for = sites

    async def _place(self, fabric: Fabric) -> None:
        fog = fog_of(fabric, self.crew.dead)
        places = await self.placer.place(self._jobs, fog, self._current())
        away = {site.name for site in fabric.sites if not site.reachable}
        for group, tasks in self.planner.tasks.items():
            standing = self._standings.get(group)
            if standing is None:
                continue
            # What runs at a site that is cut off goes on there, and is not moved when it is back.
            kept = {
                task: node
                for task, node in standing.nodes.items()
                if task in tasks and _pinned_to(tasks[task]) in away
            }
            nodes = {**kept, **places.get(group.id, {})}
            await self._standings.store(msgspec.structs.replace(standing, nodes=nodes))

    def _current(self) -> dict[str, Mapping[str, str]]:
        return {standing.group.id: standing.nodes for standing in self._standings.all()}

    def _order(self) -> None:
        orders: dict[str, dict[str, Fragment]] = defaultdict(dict)
        spared = []
        for group, tasks in self.planner.tasks.items():
            for task, fragment in tasks.items():
                node = self.node(group, task)
                if node is not None:
                    orders[node][fragment.id] = fragment
            if not self._has_taken_over(group, tasks):
                # The partials of an older version, whose ids begin so.
                spared.append(f"{group.id}.")
        for name, keeper in self.crew.all():
            keeper.order(Orders(orders.get(name, {}), tuple(spared)))

    def _has_taken_over(self, group: Group, tasks: Tasks) -> bool:
        status = self.status(group, MERGE)
        return MERGE in tasks and (status is not None and status.active == tasks[MERGE].fingerprint)

    def _frontiers(self) -> Iterator[tuple[Group, int]]:
        for group, tasks in self.planner.tasks.items():
            status = self.status(group, MERGE if MERGE in tasks else WHOLE)
            if status is not None and runs(status, result_of(tasks)):
                yield group, status.frontier

    def _wake(self) -> None:
        self._woken.set()

    def _note(self, problem: str) -> None:
        RECONCILE_ERRORS.inc()
        if problem != self.problem:
            log.warning("workers may not run what is deployed", reason=problem)
        self.problem = problem


def _pinned_to(fragment: Fragment) -> str | None:
    return None if isinstance(fragment, Merge) else fragment.source.site
