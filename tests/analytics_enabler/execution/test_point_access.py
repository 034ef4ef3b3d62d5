"""The sites whose points workers at other sites can read, and the reads of these points."""

from collections.abc import Mapping

import pytest

from analytics_enabler.execution.point_access import PointAccess
from analytics_enabler.fragments import Tasks, over_sites, plans_of, required_version, whole
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.jobs import job_of
from mistbow.fabric import Fabric, Site, SiteLink, Worker
from tests.analytics_enabler.support import deployment

ALL = Group(scope=None, scheduler="fair")
NODES = {"at-edge": "w-cloud", "at-cloud": "w-cloud", "merge": "w-cloud"}


def fabric(
    workers: Mapping[str, str] = {"cloud": "w-cloud"},
    cut: str | None = None,
    suspected: bool = False,
) -> Fabric:
    """Return the fabric of the sites ``cloud`` and ``edge``, as the cloud sees it."""

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

    return Fabric(
        site="cloud",
        sites=(site("cloud"), site("edge")),
        links=() if cut else (SiteLink(source="cloud", target="edge", latency_ms=40.0),),
    )


def tasks_of() -> Tasks:
    """Return the tasks of an insight over the cloud and the edge, whose panes are in the cloud."""
    (plan,) = plans_of(deployment("a = COMPUTE AVG(x, 10 s) EVERY 5 s").running).values()
    version = required_version(plan, 0, ())
    return over_sites(ALL, plan, version, ("cloud", "edge"), "cloud", 5000, {"edge": "cloud"})


def remotely_readable(access: PointAccess, group: Group, tasks: Tasks) -> dict[str, bool]:
    job = access.readable(job_of(group, tasks, "cloud", ()))
    return {task.id: task.remotely_readable for task in job.tasks}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (fabric(), True),
        (fabric(cut="edge"), False),
        (fabric(cut="edge", suspected=True), True),
    ],
)
def test_points_are_remotely_readable_while_their_site_is_reachable(
    found: Fabric, expected: bool
) -> None:
    readable = remotely_readable(PointAccess(found), ALL, tasks_of())
    assert readable == {"at-cloud": True, "at-edge": expected, "merge": False}


def test_points_of_insights_of_a_single_site_are_remotely_readable() -> None:
    group = Group(scope="edge", scheduler="fair")
    (plan,) = plans_of(deployment("a = COMPUTE AVG(x, 10 s) EVERY 5 s").running).values()
    tasks = whole(group, plan, "edge")
    for cut, expected in ((None, True), ("edge", False)):
        readable = remotely_readable(PointAccess(fabric(cut=cut)), group, tasks)
        assert list(readable.values()) == [expected]


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ({"cloud": "w-cloud"}, "the site has no worker"),
        ({"cloud": "w-cloud", "edge": "w-edge"}, "no worker of the site can run the insight"),
    ],
)
def test_remote_reads_name_reader_latency_and_reason(workers: dict[str, str], reason: str) -> None:
    access = PointAccess(fabric(workers))
    (read,) = access.remote_reads(tasks_of(), NODES)
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
