"""The claims of streams by the queries of a runner."""

import pytest

from analytics_worker.lifecycle.runner_state import RunnerState
from analytics_worker.streaming_library import QueryFailure
from tests.analytics_worker.lifecycle.runner_scene import (
    SECOND,
    RunnerScene,
    run_first_query,
    running_scene,
)
from tests.support.conditions import eventually

pytestmark = pytest.mark.usefixtures("brief_pauses")


def test_query_that_finds_results_claims_the_target_when_it_has_caught_up() -> None:
    with running_scene(frontier=5000) as scene:
        scene.has_queries(1)
        (query,) = scene.library.queries
        # Another worker writes results meanwhile.
        scene.agent.frontier = 7000
        query.frontier = 6000
        eventually(lambda: scene.runner._progress.frontier == 7000, timeout=10, what="a look")
        assert (scene.agent.epoch, query.lease.epochs) == (0, None)
        assert scene.runner.status().active is None
        query.frontier = 7000
        scene.reaches(RunnerState.RUNNING)
        assert scene.agent.epoch == 1
        assert query.lease.epochs == {"panes": 1}


def test_query_that_requests_epochs_receives_them_and_runs_once_it_has_caught_up() -> None:
    with running_scene(frontier=5000) as scene:
        scene.has_queries(1)
        (query,) = scene.library.queries
        query.lease.request()
        eventually(lambda: query.lease.epochs == {"panes": 1}, timeout=10, what="the epochs")
        assert scene.state() is RunnerState.STARTING
        query.frontier = 5000
        scene.reaches(RunnerState.RUNNING)


def test_first_query_of_an_orphaned_fragment_claims_its_streams_before_it_catches_up() -> None:
    with running_scene(frontier=5000) as scene:
        scene.runner.note_orphan(True)
        scene.has_queries(1)
        (query,) = scene.library.queries
        eventually(lambda: query.lease.epochs == {"panes": 1}, timeout=10, what="the epochs")
        assert (query.frontier, query.lease.is_requested) == (0, False)
        assert scene.state() is RunnerState.STARTING
        query.frontier = 5000
        scene.reaches(RunnerState.RUNNING)
        assert scene.agent.epoch == 1


def test_orphan_that_is_noted_during_the_takeover_ends_with_it() -> None:
    with running_scene(frontier=5000) as scene:
        scene.runner.note_orphan(True)
        scene.has_queries(1)
        (query,) = scene.library.queries
        eventually(lambda: query.lease.epochs == {"panes": 1}, timeout=10, what="the epochs")
        scene.runner.note_orphan(True)
        query.frontier = 5000
        scene.reaches(RunnerState.RUNNING)
        query.failure = QueryFailure("fenced", is_fenced=True)
        scene.reaches(RunnerState.FENCED)
        scene.runner.accept(SECOND)
        scene.has_queries(2)
        second = scene.library.queries[1]
        eventually(lambda: second.observations > 5, timeout=10, what="observations")
        assert second.lease.epochs is None, "the other worker writes until this query catches up"


def test_orphan_that_is_noted_after_the_takeover_changes_nothing(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    eventually(lambda: scene.agent.frontier == 1000, timeout=10, what="the frontier")
    scene.runner.note_orphan(True)
    query.failure = QueryFailure("lost")
    scene.has_queries(2)
    second = scene.library.queries[1]
    eventually(lambda: second.observations > 5, timeout=10, what="observations")
    assert (scene.agent.epoch, second.lease.epochs) == (1, None)


def test_failed_query_without_epochs_leaves_the_target_to_its_writer() -> None:
    with running_scene(frontier=5000) as scene:
        scene.has_queries(1)
        scene.library.queries[0].failure = QueryFailure("lost")
        scene.has_queries(2)
        assert scene.agent.epoch == 0


def test_second_query_of_a_runner_has_the_epochs_of_the_first(scene: RunnerScene) -> None:
    run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.has_queries(2)
    assert scene.library.queries[1].lease.epochs == {"panes": 1}
    assert scene.agent.epoch == 1
