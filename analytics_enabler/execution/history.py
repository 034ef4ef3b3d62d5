"""The history of the execution: records placements, failing schedulers, missing sites and workers.

Each observation is compared with the previous observation, and with the latest decisions in the
log, so a condition that lasts is recorded once, also across a restart of the enabler.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from analytics_enabler.decision_log import ENABLER, DecisionKind, DecisionLog, listed
from analytics_enabler.execution.outages import one_line
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.driver.elasticity import HotSpot
from analytics_enabler.scheduling.driver.jobs import request_name_of

Nodes = Mapping[Group, Mapping[str, str]]
"""Group -> task -> node."""


@dataclass(frozen=True, slots=True)
class ObservedWorkers:
    """The ``available`` workers (worker -> site), and the ``dead`` and ``suspected`` workers."""

    available: Mapping[str, str]
    dead: Collection[str] = ()
    suspected: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class LoadReasons:
    """The ``hot_spots`` (worker -> its load), and why tasks move.

    ``moves``: (group id, task) -> the reason.
    """

    hot_spots: Mapping[str, HotSpot] = field(default_factory=dict)
    moves: Mapping[tuple[str, str], str] = field(default_factory=dict)


_NO_LOAD = LoadReasons()


class ExecutionHistory:
    """Records the changes between successive observations as decisions."""

    def __init__(
        self, decisions: DecisionLog, driver: PlacementDriver, fabric_view: FabricView
    ) -> None:
        self._decisions = decisions
        self._driver = driver
        self._fabric_view = fabric_view
        self._nodes: Nodes | None = None
        self._seen: dict[str, str] = {}
        """Worker -> site, for the workers that were alive at the last observation."""

    def begin(self, nodes: Nodes) -> None:
        """Record the placements of a former enabler, before the first observation."""
        if self._nodes is None:
            self._nodes = nodes

    def forget(self) -> None:
        """Forget the last observation, because another enabler decides now."""
        self._nodes, self._seen = None, {}

    def observe(self, nodes: Nodes, workers: ObservedWorkers, load: LoadReasons = _NO_LOAD) -> None:
        """Record what has changed since the last observation; ``nodes``: the present placements."""
        self._observe_placements(nodes, workers, load)
        if not self._decisions.is_loaded:
            return
        self._observe_schedulers({request_name_of(group) for group in nodes})
        self._observe_sites()
        self._observe_workers(workers)
        self._observe_load(load)

    def _observe_placements(
        self, nodes: Nodes, workers: ObservedWorkers, load: LoadReasons
    ) -> None:
        former, self._nodes = self._nodes or {}, nodes
        for group in sorted({*former, *nodes}, key=lambda each: each.id):
            before, after = former.get(group, {}), nodes.get(group, {})
            if before == after:
                continue
            changes: dict[tuple[DecisionKind, str], list[str]] = defaultdict(list)
            for task in sorted({*before, *after}):
                old, new = before.get(task), after.get(task)
                if old is None and new is not None:
                    placed = DecisionKind.FRAGMENT_PLACED, "insights need it"
                    changes[placed].append(f"{task} on {new}")
                elif old is not None and new is None:
                    why = self._reason_of_stop(group, task, old, workers)
                    changes[DecisionKind.FRAGMENT_STOPPED, why].append(f"{task} on {old}")
                elif old is not None and old != new:
                    why = (
                        _loss(old, workers)
                        or load.moves.get((group.id, task))
                        or "insights, workers or their load have changed"
                    )
                    moved = f"{task} from {old} to {new}"
                    changes[DecisionKind.FRAGMENT_MOVED, why].append(moved)
            for (kind, why), fragments in changes.items():
                verb = kind.removeprefix("fragment_")
                what = f"fragments of {group.id} are {verb}: {listed(fragments)}"
                by = f"scheduler {group.scheduler}"
                self._decisions.record(kind, group.id, what=what, why=why, by=by)

    def _reason_of_stop(self, group: Group, task: str, node: str, workers: ObservedWorkers) -> str:
        reasons = [
            f"{each.node}: {each.reason}" if each.node else each.reason
            for each in self._driver.refusals(group.id)
            if each.task == task
        ]
        lost = _loss(node, workers)
        found = [*([] if lost is None else [lost]), *map(one_line, reasons)]
        return "; ".join(found) or "no insight needs it"

    def _observe_schedulers(self, requests: Collection[str]) -> None:
        problems = self._driver.outcome.problems
        for request in sorted(requests):
            problem = problems.get(request)
            self._note(
                DecisionKind.SCHEDULER_FAILED if problem else DecisionKind.SCHEDULER_RECOVERED,
                request,
                f"the scheduler {request} {'fails' if problem else 'decides again'}",
                one_line(problem) if problem else "its last decision is valid",
                is_problem=problem is not None,
            )

    def _observe_sites(self) -> None:
        own_site = self._fabric_view.own_site_text
        for site in self._fabric_view.sites:
            is_missing = self._fabric_view.unreachable_since(site) is not None
            no = " not" if is_missing else ""
            self._note(
                DecisionKind.SITE_MISSING if is_missing else DecisionKind.SITE_RETURNED,
                site,
                f"the site {site} is {'missing' if is_missing else 'back'}",
                f"its agent does{no} answer the site {own_site}",
                is_problem=is_missing,
            )

    def _observe_workers(self, workers: ObservedWorkers) -> None:
        cut: dict[str, str] = {}
        for name, site in {**self._seen, **workers.available}.items():
            if self._fabric_view.unreachable_since(site) is not None:
                # The workers of a missing site may continue to run.
                cut[name] = site
            elif (loss := _loss(name, workers)) is not None:
                if name in self._seen:
                    self._note_worker(DecisionKind.WORKER_DEAD, name, "dead", loss)
            elif name in workers.suspected:
                why = "it has been silent for longer than usual"
                self._note_worker(DecisionKind.WORKER_SUSPECTED, name, "suspected", why)
            else:
                self._note_worker(DecisionKind.WORKER_RETURNED, name, "back", "it answers")
        alive = {name: at for name, at in workers.available.items() if name not in workers.dead}
        self._seen = {**{name: cut[name] for name in cut.keys() & self._seen.keys()}, **alive}

    def _observe_load(self, load: LoadReasons) -> None:
        for name, spot in load.hot_spots.items():
            what = f"the worker {name} is a hot spot"
            why = f"its fragments need {spot.demanded:.2f} cores, and {spot.free:.2f} are free"
            self._note(DecisionKind.HOTSPOT_FOUND, name, what, why, is_problem=True)
        for name in self._seen.keys() - load.hot_spots.keys():
            what = f"the worker {name} is no longer a hot spot"
            why = "its free cores suffice for all fragments that have left"
            self._note(DecisionKind.HOTSPOT_ENDED, name, what, why, is_problem=False)

    def _note_worker(self, kind: DecisionKind, name: str, state: str, why: str) -> None:
        is_problem = kind is not DecisionKind.WORKER_RETURNED
        self._note(kind, name, f"the worker {name} is {state}", why, is_problem=is_problem)

    def _note(
        self, kind: DecisionKind, subject: str, what: str, why: str, *, is_problem: bool
    ) -> None:
        """Record a condition, unless its latest decision is the same.

        The end of a problem is recorded only if the log has its beginning.
        """
        latest = self._decisions.latest_kind(kind.family, subject)
        if latest is not kind and (is_problem or latest is not None):
            self._decisions.record(kind, subject, what=what, why=why, by=ENABLER)


def _loss(worker: str, workers: ObservedWorkers) -> str | None:
    """Return why a worker cannot run fragments; None: it can."""
    if worker not in workers.available:
        return f"the worker {worker} sends no announcements, or its site is unreachable"
    return f"the worker {worker} does not answer" if worker in workers.dead else None
