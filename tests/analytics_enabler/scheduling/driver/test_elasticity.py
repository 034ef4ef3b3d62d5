"""Hot spots: found and ended with hysteresis; as few tasks as possible leave for free capacity."""

from collections.abc import Sequence

import msgspec
import pytest

from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.builtin.latency import Latency
from analytics_enabler.scheduling.driver.capacity import fit_running
from analytics_enabler.scheduling.driver.driver import nodes_by_job
from analytics_enabler.scheduling.driver.elasticity import BLOCK_MS, COOL_MS, HOT_MS, Elasticity
from analytics_enabler.scheduling.interface import Scheduler
from analytics_enabler.scheduling.model.jobs import Assignment, Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.sandbox.validation import violations
from tests.analytics_enabler.scheduling import build

FOG = build.fog(
    build.node("edge", cores=2),
    build.node("cloud", cores=4),
    links={("edge", "cloud"): 20},
)


def jobs(load: float) -> list[Job]:
    """Return three jobs over the points of the edge, whose tasks need ``load`` cores each."""
    return [
        build.job(
            name,
            build.task("whole", "edge", cores=load, memory_mb=100.0, remotely_readable=True),
            sink="edge",
        )
        for name in ("p", "q", "r")
    ]


class Scene:
    """Elasticity with a scheduler and a clock, look by look."""

    def __init__(self, scheduler: type[Scheduler] = Fair, fog: Fog = FOG) -> None:
        self.scheduler, self.fog, self.now = scheduler, fog, 0
        self.elasticity = Elasticity(lambda: self.now)
        self.current: dict[str, dict[str, str]] = {}

    def look(self, jobs: Sequence[Job], after_ms: int = 1000) -> dict[str, int]:
        """Decide after some time; return node -> the number of its tasks."""
        self.now += after_ms
        adapted = fit_running(
            self.elasticity.adapt(jobs, self.fog, self.current), self.fog, self.current
        )
        placement = Placement(
            tuple(
                Assignment(job=job, task=task, node=node)
                for job, tasks in self.current.items()
                for task, node in tasks.items()
            )
        )
        scheduler = self.scheduler()
        scheduler.prepare({})
        decision = scheduler.schedule(tuple(adapted), self.fog, placement)
        assert violations(decision, adapted, self.fog) == []
        self.current = nodes_by_job(decision.placement)
        nodes = [node for tasks in self.current.values() for node in tasks.values()]
        return {node: nodes.count(node) for node in sorted(set(nodes))}


def test_present_demands_count_before_those_of_the_tasks() -> None:
    clock = [0]
    elasticity = Elasticity(lambda: clock[0])
    current = {name: {"whole": "edge"} for name in ("p", "q", "r")}
    present = {(name, "whole"): 0.7 for name in current}
    for clock[0] in (0, HOT_MS):
        adapted = elasticity.adapt(jobs(0.6), FOG, current, present)
    hot_spot = elasticity.hot_spots["edge"]
    assert (hot_spot.demanded, hot_spot.free) == (pytest.approx(2.1), 2.0)
    assert [(task.cores, task.avoided) for job in adapted for task in job.tasks] == [
        (0.6, ("edge",)),
        (0.6, ()),
        (0.6, ()),
    ]


@pytest.mark.parametrize("scheduler", [Fair, Latency])
def test_tasks_leave_a_hot_spot_and_return_when_it_has_cooled(scheduler: type[Scheduler]) -> None:
    scene = Scene(scheduler)
    assert scene.look(jobs(0.3)) == {"edge": 3}
    assert scene.look(jobs(1.2)) == {"edge": 3}
    assert scene.look(jobs(1.2), HOT_MS) == {"cloud": 2, "edge": 1}
    assert set(scene.elasticity.hot_spots) == {"edge"}
    [reason] = set(scene.elasticity.reasons.values())
    assert reason == (
        "the worker edge is a hot spot: its fragments need 3.60 cores, and 2.00 are free"
    )
    # With all tasks, the edge would be hot again.
    assert scene.look(jobs(0.7), COOL_MS) == {"cloud": 2, "edge": 1}
    assert scene.look(jobs(0.7), COOL_MS) == {"cloud": 2, "edge": 1}
    assert scene.look(jobs(0.3)) == {"cloud": 2, "edge": 1}
    assert scene.look(jobs(0.3), COOL_MS) == {"edge": 3}
    assert scene.elasticity.hot_spots == {}


def test_short_peak_moves_nothing() -> None:
    scene = Scene()
    for load in (0.3, 1.2, 0.3, 1.2):
        assert scene.look(jobs(load), HOT_MS - 1) == {"edge": 3}


def test_load_of_other_programs_makes_a_hot_spot() -> None:
    scene = Scene()
    scene.look(jobs(0.3))
    loaded = msgspec.structs.replace(FOG.by_name["edge"], cores_free=0.5)
    scene.fog = FOG.with_nodes([loaded, FOG.by_name["cloud"]])
    scene.look(jobs(0.3))
    assert scene.look(jobs(0.3), HOT_MS) == {"cloud": 2, "edge": 1}


def test_tasks_stay_if_no_other_node_has_room() -> None:
    scene = Scene(fog=build.fog(build.node("edge", cores=2), build.node("cloud", cores=1)))
    scene.look(jobs(0.3))
    scene.look(jobs(1.2))
    assert scene.look(jobs(1.2), HOT_MS) == {"edge": 3}
    assert set(scene.elasticity.hot_spots) == {"edge"}


def test_points_that_no_other_site_can_read_stay() -> None:
    scene = Scene()
    light, heavy = (
        [
            msgspec.structs.replace(
                job, tasks=(msgspec.structs.replace(job.tasks[0], remotely_readable=False),)
            )
            for job in jobs(load)
        ]
        for load in (0.3, 1.2)
    )
    scene.look(light)
    scene.look(heavy)
    assert scene.look(heavy, HOT_MS) == {"edge": 3}
    assert set(scene.elasticity.hot_spots) == {"edge"}


def test_task_that_no_scheduler_places_elsewhere_stays_for_a_while() -> None:
    scene = Scene()
    scene.look(jobs(0.3))
    scene.look(jobs(1.2))
    scene.now += HOT_MS
    adapted = scene.elasticity.adapt(jobs(1.2), FOG, scene.current)
    assert [job.tasks[0].avoided for job in adapted].count(("edge",)) == 2
    assert scene.elasticity.return_unplaced({})
    assert scene.elasticity.apply(jobs(1.2)) == jobs(1.2)
    assert not scene.elasticity.return_unplaced({})
    blocked = scene.elasticity.adapt(jobs(1.2), FOG, scene.current)
    assert sum(bool(job.tasks[0].avoided) for job in blocked) == 1
    scene.now += BLOCK_MS + 1
    again = scene.elasticity.adapt(jobs(1.2), FOG, scene.current)
    assert sum(bool(job.tasks[0].avoided) for job in again) == 2


def test_block_of_a_task_whose_job_has_ended_is_removed() -> None:
    scene = Scene()
    scene.look(jobs(0.3))
    scene.look(jobs(1.2))
    scene.now += HOT_MS
    scene.elasticity.adapt(jobs(1.2), FOG, scene.current)
    assert scene.elasticity.return_unplaced({})
    scene.elasticity.adapt(jobs(1.2), FOG, scene.current)
    assert scene.elasticity._blocked_until
    scene.elasticity.adapt([], FOG, scene.current)
    assert not scene.elasticity._blocked_until


def test_task_that_has_left_two_hot_spots_returns_to_neither() -> None:
    """The nodes a and b are hot, so that q leaves both; then all three fit on a, but barely."""
    scene = Scene(
        Latency,
        build.fog(
            *(build.node(name, cores=1) for name in "abc"),
            links={("hub", "a"): 10, ("hub", "b"): 30, ("hub", "c"): 50},
        ),
    )

    def needed(*cores: float) -> list[Job]:
        return [
            build.job(
                name,
                build.task("whole", "hub", cores=each, memory_mb=1, remotely_readable=True),
                sink="hub",
            )
            for name, each in zip("pqr", cores, strict=True)
        ]

    scene.look(needed(0.3, 0.3, 0.3))
    scene.look(needed(0.5, 0.6, 0.1))
    scene.look(needed(0.5, 0.6, 0.1), HOT_MS)
    assert nodes_of(scene) == {"p": "a", "q": "b", "r": "a"}
    other = msgspec.structs.replace(scene.fog.by_name["b"], cores_free=0.5)
    scene.fog = scene.fog.with_nodes([scene.fog.by_name["a"], other, scene.fog.by_name["c"]])
    scene.look(needed(0.5, 0.6, 0.1))
    scene.look(needed(0.5, 0.6, 0.1), HOT_MS)
    assert nodes_of(scene) == {"p": "a", "q": "c", "r": "a"}
    for _ in range(3):
        # They would fit, but the node would be a hot spot again soon.
        scene.look(needed(0.5, 0.4, 0.05), COOL_MS)
        assert nodes_of(scene) == {"p": "a", "q": "c", "r": "a"}
    scene.look(needed(0.1, 0.1, 0.1))
    scene.look(needed(0.1, 0.1, 0.1), COOL_MS)
    assert nodes_of(scene) == {"p": "a", "q": "a", "r": "a"}
    assert scene.elasticity.hot_spots == {}


def nodes_of(scene: Scene) -> dict[str, str]:
    return {job: node for job, tasks in scene.current.items() for node in tasks.values()}
