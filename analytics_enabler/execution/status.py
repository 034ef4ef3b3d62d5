"""The status of deployments, derived from the desired and the observed state of fragments."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from analytics.insight_models import RemoteRead
from analytics.plan.fragments import Fragment, Merge, Partial, Whole
from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.model import Deployment, Generation
from analytics_enabler.execution.group_placements import GroupPlacements
from analytics_enabler.execution.lifecycle import (
    GroupFacts,
    MissingSite,
    State,
    StateReport,
    computing_status,
    overload,
    runs,
    settlement,
    state_of,
)
from analytics_enabler.execution.outages import (
    Outage,
    failed_fragment,
    failed_scheduler,
    in_order,
    killed_worker,
    late_panes,
    lost_worker,
    one_line,
    overloaded_fragment,
    pending_move,
    site_without_worker,
    unplaced_task,
    unreachable_site,
)
from analytics_enabler.execution.planner import Planner
from analytics_enabler.execution.point_access import PointAccess
from analytics_enabler.execution.reports import DeploymentReport, InsightReport, PlacedTask
from analytics_enabler.execution.worker_reconcilers import WorkerReconciler, WorkerReconcilers
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.fragments import MERGE, Tasks, data_site, result_task
from analytics_enabler.groups import Group
from analytics_enabler.onsets import Onsets
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.driver.jobs import request_name_of
from analytics_enabler.scheduling.sandbox.guard import Outcome
from mistbow.clock import Clock


class ExecutionStatus:
    """Reads the status of insights, groups and fragments.

    ``reconciliation_outage``: returns the outage of the enabler itself if its last reconciliation
    failed, or None after a success.
    """

    def __init__(
        self,
        planner: Planner,
        placements: GroupPlacements,
        driver: PlacementDriver,
        workers: WorkerReconcilers,
        fabric_view: FabricView,
        reconciliation_outage: Callable[[], Outage | None],
        clock: Clock,
    ) -> None:
        self._planner = planner
        self._placements = placements
        self._driver = driver
        self._workers = workers
        self._fabric_view = fabric_view
        self._reconciliation_outage = reconciliation_outage
        self._clock = clock
        self._states = Onsets[tuple[str, State]](clock)
        self._unplaced = Onsets[tuple[str, str]](clock)
        self._lost = Onsets[str](clock)
        """The workers that have left the fabric, while fragments are placed on them."""
        self._late = Onsets[tuple[str, str]](clock)
        """(group id, site): the sites for which merges do not wait."""
        self._failed_schedulers = Onsets[str](clock)
        self._refusals_of: tuple[Outcome | None, dict[tuple[str, str], list[str]]] = None, {}
        """A decision of the schedulers, and its refusals: (group id, task) -> reasons."""
        self._computed: dict[Group, tuple[str, frozenset[str]]] = {}
        """Group -> (fingerprint of the last version that ran, uids of its insights)."""

    def observe(self, deployments: Iterable[Deployment]) -> None:
        """Record which tasks are not placed, which schedulers fail, and the states of insights.

        Reports take the beginnings of outages and states from these records.
        """
        self._unplaced.update(
            (group.id, task)
            for group, tasks in self._planner.tasks.items()
            for task in tasks
            if self.node(group, task) is None
        )
        self._lost.update(
            node
            for group, tasks in self._planner.tasks.items()
            for task in tasks
            if (node := self.node(group, task)) is not None and self._workers.get(node) is None
        )
        self._failed_schedulers.update(self._driver.outcome.problems)
        tasks = self._planner.tasks
        self._late.update((group.id, site) for group in tasks for site in self._reported(group))
        self._computed = {group: each for group, each in self._computed.items() if group in tasks}
        for group in tasks:
            self._observe_version(group, tasks[group])
        facts = {group: self.facts(group) for group in tasks}
        unplanned = GroupFacts()
        self._states.update(
            (each.uid, state_of(each, deployment.paused_at, facts.get(each.group, unplanned)).state)
            for deployment in deployments
            for each in deployment.live
        )

    def _observe_version(self, group: Group, tasks: Tasks) -> None:
        task = result_task(tasks)
        fragment, status = tasks[task], self.fragment(group, task)
        if isinstance(fragment, Partial) or status is None or not runs(status, fragment):
            return
        if self._computed.get(group, ("",))[0] != fragment.fingerprint:
            uids = frozenset(insight.uid for insight in fragment.plan.insights)
            self._computed[group] = fragment.fingerprint, uids

    def report(self, deployment: Deployment) -> DeploymentReport:
        """Return the states and the problems of a deployment and its insights."""
        groups = {each.group for each in (*deployment.live, *deployment.ended)}
        facts = {group: self.facts(group) for group in groups}
        outages = {group: in_order(self._outages(group)) for group in groups}
        insights = {
            each.uid: self._report(each, deployment.paused_at, facts[each.group], outages)
            for each in deployment.live
        }
        ended = {each.uid: state_of(each, None, facts[each.group]) for each in deployment.ended}
        move = deployment.pending_move
        return DeploymentReport(insights, ended, None if move is None else pending_move(move))

    def _report(
        self,
        generation: Generation,
        paused_at: int | None,
        facts: GroupFacts,
        outages: Mapping[Group, Sequence[Outage]],
    ) -> InsightReport:
        state = state_of(generation, paused_at, facts)
        if state.state is State.PAUSED:
            given_up = tuple(
                MissingSite(site, None, "it was not reachable until the results were final")
                for site in generation.missing_sites
            )
            return InsightReport(state, (), (), missing=given_up)
        found = outages[generation.group]
        computing = computing_status(generation, facts)
        due, silent = (
            ({}, {}) if computing is None else (computing.corrections_due, computing.silent)
        )
        return InsightReport(
            self._with_since(generation, state, found),
            tuple(found),
            tuple(f"{generation.name}: {each}" for each in self._operator_failures(generation)),
            None if facts.status is None else facts.status.lag_ms,
            facts.absent,
            due.get(generation.uid, 0),
            silent.get(generation.uid),
        )

    def _with_since(
        self, generation: Generation, report: StateReport, outages: Sequence[Outage]
    ) -> StateReport:
        if report.since is not None:
            return report
        observed = self._states.add((generation.uid, report.state))
        if report.state in (State.FAILED, State.PLACING):
            first = next((each.since for each in outages), None)
            return replace(report, since=observed if first is None else first)
        return replace(report, since=observed)

    def placed_tasks(self, deployment: Deployment | None = None) -> Iterator[PlacedTask]:
        """Yield the tasks of a deployment, where each is placed, and what its worker reports.

        ``deployment``: None: the tasks of all groups.
        """
        tasks = self._planner.tasks
        groups = set(tasks) if deployment is None else {each.group for each in deployment.running}
        sites = self._fabric_view.site_of_worker
        for group in sorted(groups, key=lambda each: each.id):
            placement = self._placements.get(group)
            for task, fragment in tasks.get(group, {}).items():
                node = self.node(group, task)
                yield PlacedTask(
                    group=group,
                    task=task,
                    fragment=fragment,
                    node=node,
                    site=None if node is None else sites.get(node),
                    since=None if placement is None else placement.since.get(task),
                    status=self.fragment(group, task),
                )

    def unplaced(self, deployment: Deployment) -> Outage | None:
        """Return the first outage of a task that no worker can run, although its site is reachable.

        None: all tasks are placed, or wait for a site.
        """
        found = [
            unplaced_task(group.id, task, since, list(self._refusals(group, task)))
            for group in {generation.group for generation in deployment.live}
            for task, fragment in self._planner.tasks.get(group, {}).items()
            if (since := self._unplaced.get((group.id, task))) is not None
            and not self._waits_for_site(fragment)
        ]
        return next(iter(in_order(found)), None)

    def _waits_for_site(self, fragment: Fragment) -> bool:
        site = data_site(fragment)
        return site is not None and self._fabric_view.unreachable_since(site) is not None

    def remote_reads(self, group: Group) -> list[RemoteRead]:
        """Return the reads of a group's points by workers at other sites than the points."""
        fabric, placement = self._fabric_view.fabric, self._placements.get(group)
        if fabric is None or placement is None:
            return []
        tasks = self._planner.tasks.get(group, {})
        return list(PointAccess(fabric).remote_reads(tasks, placement.nodes))

    def node(self, group: Group, task: str) -> str | None:
        """Return the node that a task is placed on; None if the task is not placed."""
        placement = self._placements.get(group)
        return None if placement is None else placement.nodes.get(task)

    def fragments(self, group: Group) -> Iterator[Fragment]:
        """Yield the desired fragments of a group."""
        yield from self._planner.tasks.get(group, {}).values()

    def planned_uids(self, group: Group) -> frozenset[str]:
        """Return the uids of the insights that the desired fragments of a group compute."""
        fragments = self.fragments(group)
        plans = [each.plan for each in fragments if isinstance(each, Whole | Merge)]
        return frozenset(insight.uid for plan in plans for insight in plan.insights)

    def fragment(self, group: Group, task: str) -> FragmentStatus | None:
        """Return the observed status of a task's fragment; None: no worker runs the fragment."""
        worker = self._worker(group, task)
        fragment = self._planner.tasks.get(group, {}).get(task)
        if worker is None or fragment is None:
            return None
        return worker.observed.get(fragment.id)

    def is_running(self, fragment_id: str) -> bool:
        """Return whether any worker runs a fragment."""
        return any(fragment_id in worker.observed for worker in self._workers.all())

    def is_written(self, fragment_id: str) -> bool:
        """Return whether any worker reports that it writes a fragment, in any version."""
        observed = (worker.observed.get(fragment_id) for worker in self._workers.all())
        return any(status is not None and status.active is not None for status in observed)

    def bytes_per_s(self, fragment_id: str) -> float | None:
        """Return the bytes per second that a fragment writes, as measured over the last minute.

        Return None if the fragment does not run, or the rate is not measured yet.
        """
        for worker in self._workers.all():
            if fragment_id in worker.meters:
                return worker.meters[fragment_id].written_bytes.rate
        return None

    def is_active(self, group: Group, task: str) -> bool:
        """Return whether the desired version of a task's fragment writes, on the desired node."""
        status = self.fragment(group, task)
        return status is not None and status.active == self._planner.tasks[group][task].fingerprint

    def settlement(self, generation: Generation) -> tuple[str, ...] | None:
        """Return the sites that are missing in the final results of an ended generation.

        None: its results are not final.
        """
        return settlement(generation, self.facts(generation.group), self._clock())

    def facts(self, group: Group) -> GroupFacts:
        """Return the desired and the observed state of a group."""
        tasks = self._planner.tasks.get(group)
        if tasks is None:
            return GroupFacts(is_refused=self._reconciliation_outage() is not None)
        task = result_task(tasks)
        worker = self._worker(group, task)
        statuses = [status for each in tasks if (status := self.fragment(group, each)) is not None]
        self._observe_version(group, tasks)
        former_version, uids = self._computed.get(group, ("", frozenset()))
        former = [
            status
            for each in self._workers.all()
            if (status := each.observed.get(group.id)) is not None
            and (status.state, status.active) == ("running", former_version)
        ]
        return GroupFacts(
            is_placed=self.node(group, task) is not None,
            is_refused=bool(self._refusals(group, task)),
            is_lost=worker is None or (worker.outage is not None and not worker.observed),
            desired=tasks[task],
            status=self.fragment(group, task),
            former=former[0] if former else None,
            former_uids=uids,
            overload=tuple(overload(statuses)),
            missing=tuple(self._missing_sites(group)),
            unreachable=self._unreachable_source(tasks[task], self.node(group, task)),
        )

    def _unreachable_source(self, fragment: Fragment, node: str | None) -> MissingSite | None:
        site = data_site(fragment) if isinstance(fragment, Whole) else None
        if site is None or self._fabric_view.unreachable_since(site) is None:
            return None
        return _missing(site, self._cut(site, fragment, node))

    def _missing_sites(self, group: Group) -> Iterator[MissingSite]:
        """Yield the sites whose points are missing in the results of a group."""
        for site, outage in self._site_outages(group):
            yield _missing(site, outage)

    def _site_outages(self, group: Group) -> Iterator[tuple[str, Outage]]:
        """Yield the sites whose points are missing in the results of a group, with the reason.

        The merge reports the sites that it does not wait for. A site whose partial fragment cannot
        run is missing too.
        """
        reported = self._reported(group)
        for task, fragment in self._planner.tasks.get(group, {}).items():
            site = data_site(fragment)
            if not isinstance(fragment, Partial) or site is None:
                continue
            outage = next(iter(in_order(self._partial_outages(group, task, fragment))), None)
            if outage is not None:
                yield site, outage
            elif site in reported:
                # The merge does not know the time of a site that has never sent panes to it.
                since = reported[site] or self._late.add((group.id, site))
                yield site, late_panes(site, since)

    def _reported(self, group: Group) -> Mapping[str, int]:
        """Return site -> since when (ms; 0: unknown) the merge of a group does not wait for it."""
        has_merge = MERGE in self._planner.tasks.get(group, {})
        status = self.fragment(group, MERGE) if has_merge else None
        return {} if status is None else status.missing

    def _partial_outages(self, group: Group, task: str, fragment: Partial) -> Iterator[Outage]:
        """Yield the outages that stop a partial fragment from sending panes."""
        node = self.node(group, task)
        if node is None:
            if reasons := self._refusals(group, task):
                yield from self._outages_of_unplaced(group, task, fragment, reasons)
            return
        status = self.fragment(group, task)
        site = fragment.source.site
        is_cut = self._fabric_view.unreachable_since(site) is not None
        if status is None or status.state != "running" or is_cut:
            yield from self._outages_on(node, fragment)

    def _outages(self, group: Group) -> Iterator[Outage]:
        reconciliation = self._reconciliation_outage()
        if reconciliation is not None:
            yield reconciliation
        request = request_name_of(group)
        problem = self._driver.outcome.problems.get(request)
        if problem is not None:
            yield failed_scheduler(request, self._failed_schedulers.get(request), problem)
        for task, fragment in self._planner.tasks.get(group, {}).items():
            node = self.node(group, task)
            if node is not None:
                yield from self._outages_on(node, fragment)
            elif (reasons := self._refusals(group, task)) and problem is None:
                yield from self._outages_of_unplaced(group, task, fragment, reasons)
        if problem is None:
            yield from (outage for _, outage in self._site_outages(group))

    def _outages_on(self, node: str, fragment: Fragment) -> Iterator[Outage]:
        """Yield the outages of a fragment that is placed on a worker."""
        worker = self._workers.get(node)
        site = data_site(fragment)
        if site is not None and self._fabric_view.unreachable_since(site) is not None:
            is_elsewhere = self._fabric_view.site_of_worker.get(node, site) != site
            if is_elsewhere and not isinstance(fragment, Merge):
                yield self._cut_from_reader(fragment)
            else:
                yield self._cut(site, fragment, node)
            return
        if worker is None:
            yield lost_worker(node, self._lost.add(node))
            return
        if worker.outage is not None:
            yield worker.outage
        status = worker.observed.get(fragment.id)
        if status is not None:
            if status.error is not None or status.state in ("failed", "fenced"):
                yield failed_fragment(node, status)
            overloaded = overloaded_fragment(node, status)
            if overloaded is not None:
                yield overloaded

    def _outages_of_unplaced(
        self, group: Group, task: str, fragment: Fragment, reasons: Sequence[str]
    ) -> Iterator[Outage]:
        """Yield the outages that leave a task without a worker."""
        site = data_site(fragment)
        if site is not None and self._fabric_view.unreachable_since(site) is not None:
            yield self._cut(site, fragment, None)
            return
        if site is not None and self._fabric_view.workerless_since(site) is not None:
            since = self._fabric_view.workerless_since(site)
            others = reasons if self._workers.all() else ()
            yield site_without_worker(site, since, self._fabric_view.last_workers(site), others)
            return
        names = () if site is None else self._fabric_view.last_workers(site)
        found = [worker for name in names if (worker := self._workers.get(name)) is not None]
        silent = [worker.outage for worker in found if worker.outage is not None]
        yield from silent
        if not silent:
            yield from self._killed({each.node for each in self._driver.refusals(group.id)})
            yield unplaced_task(group.id, task, self._unplaced.get((group.id, task)), reasons)

    def _killed(self, nodes: Collection[str | None]) -> Iterator[Outage]:
        """Yield the outages of the nodes whose workers were killed for lack of memory."""
        fabric = self._fabric_view.fabric
        for site in () if fabric is None else fabric.sites:
            for worker in site.workers:
                if worker.limit is not None and worker.name in nodes:
                    yield killed_worker(worker.name, worker.limit)

    def _cut(self, site: str, fragment: Fragment, worker: str | None) -> Outage:
        """Return the outage of an unreachable site; ``worker``: the worker of the fragment."""
        own_site = self._fabric_view.own_site_text
        if isinstance(fragment, Partial):
            consequence = "Results lack its points, and are corrected when it is back"
        elif worker is None:
            consequence = "The insights of this site start when it is back"
        else:
            consequence = (
                f"Its worker {worker} continues alone, and its results are readable when it is back"
            )
        since = self._fabric_view.unreachable_since(site)
        return unreachable_site(site, since, own_site, consequence)

    def _cut_from_reader(self, fragment: Whole | Partial) -> Outage:
        """Return the outage of an unreachable site whose points a worker elsewhere reads."""
        site = fragment.source.site
        if isinstance(fragment, Partial):
            consequence = "Results lack its later points, and are corrected when it is back"
        else:
            consequence = "The insights of this site continue when it is back"
        own_site = self._fabric_view.own_site_text
        since = self._fabric_view.unreachable_since(site)
        return unreachable_site(site, since, own_site, consequence)

    def _operator_failures(self, generation: Generation) -> Iterator[str]:
        for task in self._planner.tasks.get(generation.group, ()):
            status = self.fragment(generation.group, task)
            if status is not None and generation.uid in status.operator_failures:
                yield status.operator_failures[generation.uid]

    def _refusals(self, group: Group, task: str) -> Sequence[str]:
        outcome, reasons = self._refusals_of
        if outcome is not self._driver.outcome:
            outcome, reasons = self._driver.outcome, defaultdict(list)
            for refusal in outcome.decision.refusals:
                on_node = "" if refusal.node is None else f"{refusal.node}: "
                reasons[refusal.job, refusal.task].append(f"{on_node}{refusal.reason}")
            self._refusals_of = outcome, reasons
        return reasons.get((group.id, task), ())

    def _worker(self, group: Group, task: str) -> WorkerReconciler | None:
        node = self.node(group, task)
        return None if node is None else self._workers.get(node)


def _missing(site: str, outage: Outage) -> MissingSite:
    """Return a site whose points are missing because of an outage."""
    return MissingSite(site, outage.since, f"{outage.what}: {one_line(outage.why)}")
