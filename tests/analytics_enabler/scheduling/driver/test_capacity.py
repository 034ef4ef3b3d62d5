from hypothesis import given
from hypothesis import strategies as st

from analytics_enabler.scheduling.driver.capacity import fit_running
from analytics_enabler.scheduling.model.jobs import Job, Task
from analytics_enabler.scheduling.model.snapshot import Fog, Node


def node(name: str, cores: float) -> Node:
    return Node(
        name=name, site=name, cores=cores, cores_free=cores, memory_mb=900, memory_free_mb=900
    )


def job(name: str, cores: float, pinned: str | None = None) -> Job:
    task = Task(id="whole", cores=cores, memory_mb=10, pinned=pinned)
    return Job(id=name, tasks=(task,), scheduler="fair", sink="a")


FOG = Fog((node("a", 1.0), node("b", 0.5)))


def test_jobs_that_fit_do_not_change() -> None:
    jobs = [job("one", 0.4), job("other", 0.6)]
    assert fit_running(jobs, FOG, {"one": {"whole": "a"}, "other": {"whole": "a"}}) == jobs


def test_running_tasks_of_an_overloaded_node_share_it() -> None:
    jobs = [job("one", 0.6), job("other", 1.2), job("new", 0.3)]
    fitting = fit_running(jobs, FOG, {"one": {"whole": "a"}, "other": {"whole": "a"}})
    assert [round(each.tasks[0].cores, 4) for each in fitting] == [0.3333, 0.6667, 0.3]


def test_demand_alone_refuses_no_task() -> None:
    fitting = fit_running([job("new", 7.0), job("pinned", 7.0, pinned="b")], FOG, {})
    assert [each.tasks[0].cores for each in fitting] == [1.0, 0.5]


@given(st.lists(st.floats(0.001, 3.0), min_size=1, max_size=20))
def test_running_tasks_always_fit(demands: list[float]) -> None:
    jobs = [job(f"j{number}", cores) for number, cores in enumerate(demands)]
    fitting = fit_running(jobs, FOG, {each.id: {"whole": "b"} for each in jobs})
    assert sum(each.tasks[0].cores for each in fitting) <= 0.5 + 1e-9
