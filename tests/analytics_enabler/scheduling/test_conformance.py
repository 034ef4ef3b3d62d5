"""The test kit of schedulers: the built-in schedulers, the documented one, and wrong ones."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from analytics_enabler.scheduling.builtin.cost import Cost
from analytics_enabler.scheduling.builtin.energy import Energy
from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.builtin.quality import Quality
from analytics_enabler.scheduling.conformance import problems, scenarios
from analytics_enabler.scheduling.interface import Decision, Scheduler
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement, Setting
from analytics_enabler.scheduling.model.snapshot import Fog

DOCUMENT = Path(__file__).parents[3] / "docs/schedulers.md"


@pytest.mark.parametrize("scheduler", [Fair, Latency, Energy, Cost, Quality])
def test_built_in_scheduler_has_no_problems(scheduler: type[Scheduler]) -> None:
    assert problems(scheduler) == []


def test_documented_scheduler_has_no_problems() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    assert len(code.splitlines()) < 50
    names: dict[str, type[Scheduler]] = {}
    exec(code, names)  # noqa: S102
    assert problems(names["Regional"]) == []
    assert problems(names["Regional"], {"region": "south"}) == []
    scheduler, enough = names["Regional"](), scenarios()[0]
    scheduler.prepare({"region": "south"})
    placed = scheduler.schedule(enough.jobs, enough.fog, Placement()).placement
    assert [at.node for at in placed.by_task["a", "merge"]] == ["south1"]


class Wrong:
    """A scheduler that places all tasks on one node, with errors that subclasses add."""

    def prepare(self, settings: Mapping[str, Setting]) -> None:
        """Ignore the settings."""

    def node(self, fog: Fog, current: Placement) -> str:
        return min(fog.by_name)

    def schedule(self, jobs: tuple[Job, ...], fog: Fog, current: Placement) -> Decision:
        node = self.node(fog, current)
        tasks = [(job.id, task.id) for job in jobs for task in job.tasks]
        return Decision(
            Placement(tuple(Assignment(job=job, task=task, node=node) for job, task in tasks))
        )


class Restless(Wrong):
    """Moves all tasks at each call."""

    def node(self, fog: Fog, current: Placement) -> str:
        return max(fog.by_name) if current.assignments else min(fog.by_name)


class FirstListed(Wrong):
    """Prefers the first node of the list."""

    def node(self, fog: Fog, current: Placement) -> str:
        return fog.nodes[0].name


class Faithful(Wrong):
    """Keeps all tasks on their node, even if this node is lost."""

    def node(self, fog: Fog, current: Placement) -> str:
        return current.assignments[0].node if current.assignments else min(fog.by_name)


def test_kit_reports_the_violations_of_a_scheduler() -> None:
    found = problems(Wrong)
    assert "little capacity: cloud1 has not enough cores or memory free for the tasks" in str(found)
    assert "the task's data is at north" in str(found)
    assert "suspected node: cloud1 is suspected, but gets tasks" in found
    assert "no node: the scheduler raised ValueError" in str(found)
    assert "enough capacity: a/merge moves, although nothing changed" in problems(Restless)
    lost = "after the loss of cloud1: a/merge on cloud1: there is no such node"
    assert f"enough capacity: {lost}" in problems(Faithful)
    order = "enough capacity: the order of jobs, nodes and links changes the decision"
    assert order in problems(FirstListed)


def test_scenarios_are_plain_data() -> None:
    for scenario in scenarios():
        encoded = msgspec.json.encode(scenario)
        assert msgspec.json.decode(encoded, type=type(scenario)) == scenario
