"""The streams from which workers read the points of sites."""

from collections.abc import Mapping

import pytest

from analytics.plan.fragments import Partial, StreamLocation
from analytics_enabler.execution.point_access import PointAccess, sources_of
from analytics_enabler.fragments import (
    SiteAccess,
    Tasks,
    over_sites,
    plans_of,
    required_version,
    whole,
)
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.jobs import job_of
from mistbow.fabric import Fabric, PointReplica, Site, SiteLink, Worker
from tests.analytics_enabler.support import deployment

ALL = Group(scope=None, scheduler="fair")
RAW_OF_EDGE = StreamLocation("edge", "raw")
AT_DEPOT = StreamLocation("depot", "replicas/edge/raw", origin="edge")
REPLICA = PointReplica(source="edge", site="depot", stream="replicas/edge/raw")
NODES = {"at-edge": "w-cloud", "at-cloud": "w-cloud", "merge": "w-cloud"}


def fabric(
    *replicas: PointReplica,
    workers: Mapping[str, str] = {"cloud": "w-cloud"},
    cut: str | None = None,
    suspected: bool = False,
    edge_ms: float = 40.0,
    depot_ms: float = 10.0,
) -> Fabric:
    """Return the fabric of the sites ``cloud``, ``depot`` and ``edge``, as the cloud sees it."""

    def site(name: str) -> Site:
        found = workers.get(name)
        free = {"cores": 4, "memory_mb": 4096, "cores_free": 4, "memory_free_mb": 4096}
        worker = () if found is None else (Worker(name=found, url="http://w", **free),)
        is_cut = name == cut
        return Site(
            name=name,
            node=name,
            url="",
            workers=worker,
            reachable=not is_cut,
            suspected=is_cut and suspected,
        )

    latencies = {"edge": edge_ms, "depot": depot_ms}
    return Fabric(
        site="cloud",
        sites=tuple(map(site, ("cloud", "depot", "edge"))),
        links=tuple(
            SiteLink(source="cloud", target=name, latency_ms=latency)
            for name, latency in latencies.items()
            if name != cut
        ),
        replicas=replicas,
    )


def tasks_of(access: SiteAccess | None = None) -> Tasks:
    """Return the tasks of an insight over the cloud and the edge, whose panes are in the cloud."""
    (plan,) = plans_of(deployment("a = COMPUTE AVG(x, 10 s) EVERY 5 s").running).values()
    version = required_version(plan, 0, ())
    access = access or SiteAccess(panes={"edge": "cloud"})
    return over_sites(ALL, plan, version, ("cloud", "edge"), "cloud", 5000, access)


def source(found: Tasks) -> StreamLocation:
    partial = found["at-edge"]
    assert isinstance(partial, Partial)
    return partial.source


def read_at(access: PointAccess, tasks: Tasks) -> dict[str, tuple[str, ...]]:
    job = access.readable(job_of(ALL, tasks, "cloud", ()), tasks)
    return {task.id: task.read_at for task in job.tasks}


def test_points_are_read_at_their_site_while_it_is_reachable() -> None:
    access = PointAccess(fabric())
    assert read_at(access, tasks_of()) == {
        "at-cloud": ("cloud",),
        "at-edge": ("edge",),
        "merge": (),
    }
    assert source(access.locate(tasks_of(), NODES)) == RAW_OF_EDGE


def test_points_of_an_unreachable_site_are_not_read() -> None:
    access = PointAccess(fabric(REPLICA, cut="edge"))
    assert read_at(access, tasks_of())["at-edge"] == ()
    assert source(access.locate(tasks_of(), NODES)) == RAW_OF_EDGE


def test_own_worker_reads_at_its_site() -> None:
    workers = {"cloud": "w-cloud", "edge": "w-edge"}
    access = PointAccess(fabric(REPLICA, workers=workers))
    before = tasks_of(SiteAccess(panes={"edge": "cloud"}, sources={"edge": AT_DEPOT}))
    after = access.locate(before, {**NODES, "at-edge": "w-edge"})
    assert source(after) == RAW_OF_EDGE
    assert sources_of(after, SiteAccess()).sources == {}
    assert after["at-edge"].target == before["at-edge"].target


def test_unplaced_task_keeps_its_source() -> None:
    stored = SiteAccess(panes={"edge": "cloud"}, sources={"edge": AT_DEPOT})
    access = PointAccess(fabric())
    assert source(access.locate(tasks_of(stored), {})) == AT_DEPOT


def test_insights_of_a_single_site_are_read_there_only() -> None:
    group = Group(scope="edge", scheduler="fair")
    (plan,) = plans_of(deployment("a = COMPUTE AVG(x, 10 s) EVERY 5 s").running).values()
    tasks = whole(group, plan, "edge")
    for cut, expected in ((None, ("edge",)), ("edge", ())):
        access = PointAccess(fabric(REPLICA, cut=cut))
        job = access.readable(job_of(group, tasks, "cloud", ()), tasks)
        assert [task.read_at for task in job.tasks] == [expected]


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ({"cloud": "w-cloud"}, "the site has no worker"),
        ({"cloud": "w-cloud", "edge": "w-edge"}, "no worker of the site can run the insight"),
    ],
)
def test_remote_reads_name_reader_latency_and_reason(workers: dict[str, str], reason: str) -> None:
    access = PointAccess(fabric(REPLICA, workers=workers))
    (read,) = access.remote_reads(access.locate(tasks_of(), NODES), NODES)
    assert (read.site, read.reason, read.worker, read.worker_site) == (
        "edge",
        reason,
        "w-cloud",
        "cloud",
    )
    assert read.words == (
        f"{reason.replace('the site', 'the site edge')}; the worker w-cloud at cloud reads its "
        "points (40 ms away)"
    )
