"""The sites whose workers are dead, from the orders of a worker to the queries of its merge."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from analytics.plan.orders import Lease, order_of
from analytics_worker.lifecycle import runner
from analytics_worker.lifecycle.worker import AnalyticsWorker
from analytics_worker.query_lease import QueryLease
from analytics_worker.settings import WorkerSettings
from analytics_worker.streaming_library import QueryFailure, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.domains import DEFAULT_DOMAIN
from tests.analytics_worker.lifecycle.fragments import merge_of
from tests.analytics_worker.lifecycle.runner_scene import RunnerScene, run_first_query
from tests.analytics_worker.lifecycle.test_source_changes import MergeLibrary
from tests.support.conditions import eventually

EDGE = "m.0123abcd.edge"
"""The partial fragment whose panes the merge reads as those of a site of this name."""


@pytest.mark.usefixtures("brief_pauses")
def test_note_reaches_the_present_query_but_not_a_query_after_the_takeover(
    scene: RunnerScene,
) -> None:
    scene.runner.note_orphaned_sites({"edge": 7})
    scene.has_queries(1)
    [first] = scene.library.queries
    eventually(lambda: first.lease.orphaned_sites == {"edge": 7}, what="the note")
    run_first_query(scene)
    scene.runner.note_orphaned_sites({"edge": 8})
    assert first.lease.orphaned_sites == {"edge": 8}
    first.failure = QueryFailure("lost")
    scene.has_queries(2)
    assert scene.library.queries[1].lease.orphaned_sites == {}


@pytest.mark.usefixtures("brief_pauses")
def test_note_of_an_order_during_the_start_of_a_query_reaches_the_query(
    scene: RunnerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_first_query(scene)
    create = QueryLease.create

    def create_and_note(*args: object) -> QueryLease:
        lease = create(*args)  # type: ignore[arg-type]
        scene.runner.note_orphaned_sites({"edge": 9})
        return lease

    monkeypatch.setattr(QueryLease, "create", create_and_note)
    scene.library.queries[0].failure = QueryFailure("lost")
    scene.has_queries(2)
    second = scene.library.queries[1]
    eventually(lambda: second.lease.orphaned_sites == {"edge": 9}, what="the note")


@dataclass
class WorkersLibrary(MergeLibrary):
    """A streaming library of a whole worker, whose queries compute nothing."""

    support: Mapping[str, str | None] = field(default_factory=lambda: defaultdict(lambda: None))

    def warm_up(self) -> None:
        pass

    def stop(self) -> None:
        pass


@contextmanager
def started_worker(
    agent: AgentClient, home: Path
) -> Iterator[tuple[AnalyticsWorker, MergeLibrary]]:
    library = WorkersLibrary()
    settings = WorkerSettings(home=home, agent_url=agent.url, node="w")
    worker = AnalyticsWorker(settings, lambda _: cast("StreamingLibrary", library))
    worker.start()
    try:
        yield worker, library
    finally:
        worker.stop()


def test_order_with_an_orphaned_partial_reaches_the_query_of_the_merge(
    agent: AgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "scratch_folder", lambda: tmp_path)
    merge = merge_of("m.0123abcd.n1", EDGE)

    def obey(number: int, *orphaned: str) -> None:
        order = order_of(
            Lease(1, 1), [merge], frozenset(), number=number, orphaned=frozenset(orphaned)
        )
        answer = worker.obey(DEFAULT_DOMAIN, order)
        assert not answer.refused

    with started_worker(agent, tmp_path) as (worker, library):
        obey(1)
        eventually(lambda: library.queries, what="the query starts")
        [query] = library.queries
        assert query.lease.orphaned_sites == {}
        obey(7, EDGE, "m.0123abcd.unread")
        assert query.lease.orphaned_sites == {EDGE: 7}
        query.frontier = 100_000
        eventually(lambda: worker.show(merge.id).active, what="it takes over")
        # The next worker of the partial is dead too.
        obey(8, EDGE)
        assert query.lease.orphaned_sites == {EDGE: 8}
