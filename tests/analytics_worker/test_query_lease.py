"""The lease of a query, which another process of the query reads."""

import threading
from pathlib import Path

import pytest

from analytics.plan.fragments import StreamLocation
from analytics_worker.query_lease import QueryLease
from mistbow.client.agent import AgentClient
from mistbow.errors import FencedError, UnavailableError
from tests.support.conditions import eventually

TARGET = StreamLocation("n1", "results/g")


def lease_in(folder: Path, url: str = "http://127.0.0.1:1", stream: str = "") -> QueryLease:
    location = StreamLocation("n1", stream) if stream else TARGET
    return QueryLease.create(url, location, folder)


def test_lease_has_the_epochs_that_are_granted(tmp_path: Path) -> None:
    lease = lease_in(tmp_path)
    assert lease.epochs is None
    lease.grant({TARGET.stream: 3})
    same = QueryLease(lease.url, lease.target, lease.folder)
    assert same.epochs == {TARGET.stream: 3}
    assert same.append(TARGET, lambda epoch: epoch + 1) == 4
    same.wait(5000)


def test_query_reads_the_sites_whose_workers_are_dead_until_it_ends(tmp_path: Path) -> None:
    lease = lease_in(tmp_path)
    assert lease.orphaned_sites == {}
    lease.note_orphaned_sites({"edge": 7})
    assert QueryLease(lease.url, lease.target, lease.folder).orphaned_sites == {"edge": 7}
    lease.delete()
    lease.note_orphaned_sites({"edge": 8})
    assert lease.orphaned_sites == {}


def test_query_that_has_ended_can_no_longer_write(tmp_path: Path) -> None:
    lease = lease_in(tmp_path)
    lease.grant({TARGET.stream: 3})
    lease.delete()
    lease.delete()
    with pytest.raises(UnavailableError, match="the query has ended"):
        lease.append(TARGET, lambda epoch: epoch)
    with pytest.raises(UnavailableError, match="the query has ended"):
        lease.request()
    assert not list(tmp_path.iterdir())


def test_query_without_epochs_waits_for_the_frontier_or_for_epochs(
    agent: AgentClient, target: str, epoch: int, tmp_path: Path
) -> None:
    lease = lease_in(tmp_path, agent.url, target)
    agent.advance(target, epoch, frontier=5000)
    lease.wait(5000)
    assert not lease.is_requested
    for proceed in (
        lambda: agent.advance(target, epoch, frontier=6000),
        lambda: lease.grant({target: epoch}),
    ):
        waiting = threading.Thread(target=lease.wait, args=(agent.info(target).frontier + 1000,))
        waiting.start()
        eventually(lambda: lease.is_requested, what="the query requests epochs")
        assert waiting.is_alive()
        proceed()
        waiting.join(10)
        assert not waiting.is_alive()


def test_query_without_epochs_appends_under_the_present_epoch(
    agent: AgentClient, target: str, epoch: int, tmp_path: Path
) -> None:
    lease = lease_in(tmp_path, agent.url, target)
    used = []

    def append(with_epoch: int) -> int:
        used.append(with_epoch)
        if len(used) == 1:
            agent.claim(target)
        return agent.advance(target, with_epoch, attributes={"a": 1}).epoch

    assert lease.append(lease.target, append) == epoch + 1
    assert used == [epoch, epoch + 1]
    lease.grant({target: epoch})
    with pytest.raises(FencedError):
        lease.append(lease.target, append)
