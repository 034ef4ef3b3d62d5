"""The decisions that the execution records: placements, schedulers, sites and workers."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from analytics_enabler.decision_log import Decision, DecisionLog
from analytics_enabler.execution.history import ExecutionHistory, ObservedWorkers
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.groups import Group
from analytics_enabler.journal import EventJournal
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.interface import Decision as SchedulerDecision
from analytics_enabler.scheduling.model.jobs import Placement, Refusal
from analytics_enabler.scheduling.sandbox.guard import Outcome
from mistbow.client.agent import AsyncAgentClient
from mistbow.fabric import Fabric, Site, Worker

ALL = Group(scope=None, scheduler="fair")
BOTH = ObservedWorkers({"a": "cloud", "b": "edge"})


class Sites:
    """An agent with a fabric of two sites; ``edge`` may be unreachable."""

    def __init__(self) -> None:
        self.edge_is_reachable = True

    async def fabric(self) -> Fabric:
        worker = Worker(name="b", url="", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1)
        edge = Site(
            name="edge", node="e", url="", reachable=self.edge_is_reachable, workers=(worker,)
        )
        return Fabric(site="cloud", sites=(Site(name="cloud", node="c", url=""), edge))


class Scene:
    """A history whose log is loaded, and never stored."""

    def __init__(self) -> None:
        agent = cast(AsyncAgentClient, Sites())
        times = iter(range(1000))
        self.sites = cast(Sites, agent)
        self.view = FabricView(agent, lambda: next(times))
        self.driver = PlacementDriver(lambda: 0)
        journal: EventJournal[Decision] = EventJournal(agent, "decisions", lambda _: Decision)  # type: ignore[arg-type,return-value]
        self.log = DecisionLog(journal, self._never, lambda: next(times))
        self.log.is_loaded = True
        self.history = ExecutionHistory(self.log, self.driver, self.view)

    async def _never(self) -> bool:
        return False

    def observe(
        self, nodes: Mapping[Group, Mapping[str, str]], workers: ObservedWorkers = BOTH
    ) -> list[Decision]:
        """Return the decisions that an observation records."""
        before = len(self.log.newest(100))
        asyncio.run(self.view.refresh())
        self.history.observe(nodes, workers)
        return self.log.newest(100)[before:]


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.history.begin({})
    return made


def as_texts(decisions: list[Decision]) -> list[tuple[str, str, str]]:
    return [(each.what, each.why, each.by) for each in decisions]


def test_placements_of_one_reason_are_one_decision(scene: Scene) -> None:
    nodes = {ALL: {"merge": "a", "at-cloud": "a", "at-edge": "b"}}
    assert as_texts(scene.observe(nodes)) == [
        (
            "fragments of all.fair are placed: at-cloud on a, at-edge on b, merge on a",
            "insights need it",
            "scheduler fair",
        )
    ]
    assert scene.observe(nodes) == []
    assert as_texts(scene.observe({})) == [
        (
            "fragments of all.fair are stopped: at-cloud on a, at-edge on b, merge on a",
            "no insight needs it",
            "scheduler fair",
        )
    ]
    many = {ALL: {f"at-{number:02}": "a" for number in range(12)}}
    (decision,) = scene.observe(many)
    assert decision.what.endswith("at-09 on a and 2 more")


def test_move_and_stop_name_the_lost_worker_or_the_refusal(scene: Scene) -> None:
    scene.observe({ALL: {"merge": "a"}})
    dead = ObservedWorkers(BOTH.available, {"a"})
    moved, lost = scene.observe({ALL: {"merge": "b"}}, dead)
    assert as_texts([moved]) == [
        (
            "fragments of all.fair are moved: merge from a to b",
            "the worker a does not answer",
            "scheduler fair",
        )
    ]
    assert as_texts([lost]) == [("the worker a is dead", "the worker a does not answer", "enabler")]
    (back,) = scene.observe({ALL: {"merge": "b"}})
    assert back.kind == "worker_returned"
    refusal = Refusal(job="all.fair", task="merge", node="b", reason="too little memory.")
    scene.driver.outcome = Outcome(SchedulerDecision(Placement(), (refusal,)), {})
    (stopped,) = scene.observe({ALL: {}})
    assert (stopped.kind, stopped.why) == ("fragment_stopped", "b: too little memory")


def test_suspected_worker_is_recorded_before_it_is_dead_or_back(scene: Scene) -> None:
    scene.observe({ALL: {}})
    suspected = ObservedWorkers(BOTH.available, suspected={"a"})
    (found,) = scene.observe({ALL: {}}, suspected)
    assert as_texts([found]) == [
        ("the worker a is suspected", "it has been silent for longer than usual", "enabler")
    ]
    assert scene.observe({ALL: {}}, suspected) == []
    (dead,) = scene.observe({ALL: {}}, ObservedWorkers(BOTH.available, {"a"}))
    (back,) = scene.observe({ALL: {}})
    assert (dead.kind, back.kind) == ("worker_dead", "worker_returned")
    unknown = ObservedWorkers({**BOTH.available, "new": "cloud"}, {"new"})
    # It has never answered, so nothing was lost.
    assert scene.observe({ALL: {}}, unknown) == []


def test_lasting_conditions_are_recorded_once_and_their_end_too(scene: Scene) -> None:
    scene.observe({ALL: {}})
    scene.sites.edge_is_reachable = False
    only_cloud = ObservedWorkers({"a": "cloud"})
    scene.driver.outcome = Outcome(SchedulerDecision(Placement()), {"fair": "it hangs"})
    found = scene.observe({ALL: {}}, only_cloud)
    # The worker of the missing site may still run.
    assert [each.kind for each in found] == ["scheduler_failed", "site_missing"]
    assert scene.observe({ALL: {}}, only_cloud) == []
    scene.sites.edge_is_reachable = True
    scene.driver.outcome = Outcome(SchedulerDecision(Placement()), {})
    found = scene.observe({ALL: {}})
    assert [each.kind for each in found] == ["scheduler_recovered", "site_returned"]
    (left,) = scene.observe({ALL: {}}, only_cloud)
    assert (left.kind, left.subject) == ("worker_dead", "b")
    assert scene.observe({ALL: {}}, only_cloud) == []
    (returned,) = scene.observe({ALL: {}})
    assert returned.kind == "worker_returned"


def test_changes_by_another_enabler_are_not_recorded_again(scene: Scene) -> None:
    scene.observe({ALL: {"merge": "a"}})
    scene.history.forget()
    # Meanwhile, the other enabler has moved the merge, and the worker a has left.
    scene.history.begin({ALL: {"merge": "b"}})
    assert scene.observe({ALL: {"merge": "b"}}, ObservedWorkers({"b": "edge"})) == []
