"""Placement of insights that call operators of other packages."""

from analytics.plan.expressions import Measure, Source
from analytics.plan.functions import UserOperator
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_enabler.fragments import whole
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.builtin.fair import Fair
from analytics_enabler.scheduling.driver.jobs import job_of
from analytics_enabler.scheduling.driver.snapshot import fog_of
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Assignment, Placement
from analytics_enabler.scheduling.sandbox.validation import violations
from mistbow.fabric import Fabric, Site, Worker

PLAN = Plan(
    insights=(
        Insight(
            uid="d/a/1",
            expression=Measure(UserOperator("TRIMMED_MEAN", "2.0"), "w"),
            by=(),
            every_ms=1000,
            since=0,
        ),
    ),
    windows=(Window(id="w", pane="p", size_ms=1000, every_ms=1000, contents=("points",)),),
    panes=(Pane(id="p", source=Source("x"), by=(), width_ms=1000, contents=("points",)),),
)
NOWHERE = Placement()


def worker(name: str, *operators: str) -> Worker:
    return Worker(
        name=name,
        url=f"http://{name}",
        cores=2,
        memory_mb=2048,
        cores_free=2,
        memory_free_mb=2048,
        operators=operators,
    )


def test_task_requires_version_of_operator() -> None:
    group = Group(scope="s", scheduler="fair")
    job = job_of(group, whole(group, PLAN, "s"), "s", ())
    workers = worker("w1"), worker("w2", "TRIMMED_MEAN 1.0"), worker("w3", "TRIMMED_MEAN 2.0")
    fog = fog_of(Fabric(site="s", sites=(Site(name="s", node="n", url="", workers=workers),)))
    found = Fair().schedule((job,), fog, NOWHERE).placement
    assert [at.node for at in found.assignments] == ["w3"]

    elsewhere = Placement((Assignment(job=job.id, task="whole", node="w2"),))
    (fault,) = violations(Decision(elsewhere), [job], fog)
    assert "the operator TRIMMED_MEAN 2.0 is not installed there" in fault

    without = fog_of(
        Fabric(site="s", sites=(Site(name="s", node="n", url="", workers=workers[:2]),))
    )
    (refusal,) = Fair().schedule((job,), without, NOWHERE).refusals
    assert refusal.reason == "no node with site=s, the operator TRIMMED_MEAN 2.0"
