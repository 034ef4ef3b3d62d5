"""``mistbow fabric status``: the problems that it finds, with their remedies."""

from collections.abc import Sequence
from typing import Any

import pytest
from typer.testing import CliRunner

from analytics.insight_models import DeploymentStatus, InsightStatus, Lifecycle
from command_line.app import app
from command_line.fabric import enablers_table
from command_line.fabric_problems import FabricReport, find_problems
from ignite_server.ports import free_ports
from mistbow.client.operation_model import Cluster, IgniteNode, RefusedStream, SiteStatus
from mistbow.fabric import Enabler, ExpiredIdentity, Fabric, FragmentLimit, Site, SiteLink, Worker

runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})


def cluster(**changes: Any) -> Cluster:
    fields = {
        "nodes": (IgniteNode("n1", online=True),),
        "backups": 0,
        "partitions": 16,
        "copies": 1,
        "rebalancing": False,
        "lost": 0,
        "tolerates_a_failure": False,
        "refused": (),
    }
    return Cluster(**{**fields, **changes})


def worker(**changes: Any) -> Worker:
    figures = {"cores": 4, "memory_mb": 4000, "cores_free": 3, "memory_free_mb": 2000}
    return Worker(name="w", url="http://w:8100", **figures, **changes)


NOW = 1_796_083_200_000  # 1 December 2026
FAR = NOW + 40 * 86_400_000


def deployments(**changes: Any) -> list[DeploymentStatus]:
    fields = {"name": "mean", "uid": "u", "text": "", "every_ms": 1, "since": 0, "first_tick": 0}
    insight = InsightStatus(**{**fields, "state": "running", **changes})
    status = DeploymentStatus(
        deployment_id="d-1",
        name=None,
        status="running",
        error=None,
        queries="",
        created_at=0,
        updated_at=0,
        insights=[insight],
        warnings=[],
    )
    return [status]


def report(
    *workers: Worker,
    links: Sequence[SiteLink] = (),
    status: SiteStatus | None = None,
    own_cluster: Cluster | None = None,
    deployed: list[DeploymentStatus] | None = None,
    enablers: Sequence[Enabler] = (Enabler(domain="all", url="http://e:8000"),),
    **site: Any,
) -> FabricReport:
    own = Site(name="a", node="n1", url="http://a", enablers=tuple(enablers), workers=workers)
    other = Site(name="b", node="n2", url="http://b", **site)
    return FabricReport(
        Fabric(site="a", sites=(own, other), links=tuple(links)),
        {"a": status or SiteStatus(site="a", node="n1")},
        {"a": own_cluster or cluster()},
        {},
        deployments() if deployed is None else deployed,
    )


def test_healthy_fabric_has_no_problem() -> None:
    assert (
        find_problems(
            report(
                worker(identity_expires=FAR, certificate_expires=FAR),
                links=[SiteLink(source="a", target="b", latency_ms=3.0, loss=0.01)],
                identity_expires=FAR,
            ),
            NOW,
        )
        == []
    )


DAY = 86_400_000
SOON = NOW + 20 * DAY
LIMIT = FragmentLimit(fragments=2, killed_at=0, ran=3, until=1)
LOST = RefusedStream("raw", 5, 9, "b")
PROBLEMS = {
    "unreachable site": (
        report(reachable=False),
        ("site b", "unreachable", "DELETE /fabric/sites/b"),
    ),
    "suspected site": (report(reachable=False, suspected=True), ("site b", "suspected", "link")),
    "warning": (
        report(status=SiteStatus(site="a", node="n1", warnings=("the disk is full: free some",))),
        ("site a", "the disk is full", "Free some."),
    ),
    "warning without a remedy": (
        report(status=SiteStatus(site="a", node="n1", warnings=("the disk is full",))),
        ("site a", "the disk is full", "log"),
    ),
    "not ready": (
        report(status=SiteStatus(site="a", node="n1", waiting_for=("Ignite",))),
        ("site a", "waits for Ignite", "logs"),
    ),
    "lost rows": (
        report(own_cluster=cluster(refused=(LOST,))),
        (
            "site a",
            "raw lacks rows: it ends at 5, and b remembers 9",
            "storage repair raw --site a",
        ),
    ),
    "offline node": (
        report(own_cluster=cluster(nodes=(IgniteNode("n2", online=False),))),
        ("site a", "the Ignite node n2 is offline", "Restart the node"),
    ),
    "suspected worker": (
        report(worker(suspected=True)),
        ("worker w at a", "suspected", "its log"),
    ),
    "killed worker": (
        report(worker(limit=LIMIT)),
        ("worker w at a", "with 3 fragments; it runs at most 2", "more memory"),
    ),
    "lossy link": (
        report(links=[SiteLink(source="a", target="b", latency_ms=3.0, loss=0.25)]),
        ("link a to b", "25% of the last heartbeats", "network"),
    ),
    "no enabler": (report(enablers=()), ("fabric", "no enabler", "mistbow enabler")),
    "identity of an agent": (
        report(identity_expires=SOON),
        ("site b", "its identity expires on 2026-12-21", "identity issue"),
    ),
    "identity of a worker": (
        report(worker(identity_expires=SOON)),
        ("worker w at a", "its identity expires on 2026-12-21", "identity issue"),
    ),
    "certificate of a worker": (
        report(worker(certificate_expires=SOON)),
        ("worker w at a", "its certificate expires on 2026-12-21", "ca issue"),
    ),
    "identity of an enabler": (
        report(enablers=(Enabler(domain="all", url="http://e:8000", identity_expires=SOON),)),
        ("enabler of all at a", "its identity expires on 2026-12-21", "identity issue"),
    ),
    "expired identity of a worker that is gone": (
        report(
            expired_identities=(ExpiredIdentity(kind="worker", service="w", expired=NOW - DAY),),
        ),
        ("worker w at b", "its identity expired on 2026-11-30; other services", "identity issue"),
    ),
    "late insight": (
        report(deployed=deployments(lag_ms=61_000)),
        ("insight mean of d-1", "61 s late", "worker"),
    ),
    "insight without a worker": (
        report(deployed=deployments(lifecycle=Lifecycle(state="placing", since=0))),
        ("insight mean of d-1", "placing", "insights show d-1"),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_problem_is_found_with_its_place_and_a_remedy(name: str) -> None:
    found, (where, what, action) = PROBLEMS[name]
    [problem] = find_problems(found, NOW)
    assert problem.where == where
    assert what in problem.what
    assert action in problem.action


def test_table_shows_the_active_enabler_and_the_standby_of_each_domain() -> None:
    enablers = [
        Enabler(domain="all", url="http://e1:8000", is_active=False),
        Enabler(domain="all", url="http://e2:8000"),
    ]

    def rows(found: FabricReport) -> list[list[str]]:
        columns = [map(str, column.cells) for column in enablers_table(found).columns]
        return [list(row) for row in zip(*columns, strict=True)]

    assert rows(report(enablers=enablers)) == [
        ["all", "a", "http://e2:8000", "active"],
        ["all", "a", "http://e1:8000", "standby"],
    ]
    assert rows(report(enablers=()))[0][-1] == "no enabler"


def test_status_names_an_agent_that_does_not_answer() -> None:
    [port] = free_ports(1)
    result = runner.invoke(app, ["fabric", "status", "--url", f"http://127.0.0.1:{port}"])
    assert result.exit_code == 1
    assert "does not answer" in str(result.exception)
