"""The states of a runner, with a streaming library and a storage agent in memory."""

import time

import msgspec
import pytest
from structlog.testing import capture_logs

from analytics_worker.lifecycle import runner, runner_state, start_slot
from analytics_worker.lifecycle.runner_state import (
    Accept,
    LoadStatus,
    RunnerProgress,
    RunnerState,
)
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.streaming_library import QueryFailure
from mistbow.clock import system_clock
from tests.analytics_worker.lifecycle.runner_scene import (
    FIRST,
    SECOND,
    RunnerScene,
    run_first_query,
    running_scene,
)
from tests.support.conditions import eventually

THIRD = msgspec.structs.replace(FIRST, lookback_ms=7000)


pytestmark = pytest.mark.usefixtures("brief_pauses")


def test_new_version_waits_for_memory_beside_the_running_version() -> None:
    has_memory = [False]
    with running_scene(has_memory=lambda: has_memory[0]) as scene:
        query = run_first_query(scene)
        scene.runner.accept(SECOND)
        eventually(lambda: scene.runner.status().fingerprint == SECOND.fingerprint)
        query.frontier = 2000
        eventually(lambda: scene.runner.status().frontier == 2000)
        assert scene.runner.query_count == len(scene.library.queries) == 1
        has_memory[0] = True
        scene.reaches(RunnerState.HANDING_OVER)
        assert scene.runner.query_count == 2


def test_new_version_starts_after_the_running_version_when_memory_stays_short() -> None:
    short = running_scene(has_memory=lambda: False, memory_patience_s=0.2)
    with capture_logs() as logs, short as scene:
        query = run_first_query(scene)
        scene.runner.accept(SECOND)
        scene.stops(query)
        scene.has_queries(2)
        scene.library.queries[-1].frontier = 2000
        scene.reaches(RunnerState.RUNNING)
        assert scene.library.queries[-1].fragment == SECOND
        assert scene.runner.query_count == 1
    [event] = [each for each in logs if each["event"] == "handover_interrupted"]
    assert (event["log_level"], event["fragment"], event["reason"]) == ("warning", "f", "memory")


def test_handovers_without_memory_interrupt_one_query_at_a_time() -> None:
    slot = StartSlot(lambda: False, patience_s=0.2)
    with running_scene(slot=slot) as one, running_scene(slot=slot) as other:
        scenes = {run_first_query(scene): scene for scene in (one, other)}
        for scene in scenes.values():
            scene.library.begun = False
            scene.runner.accept(SECOND)
        first = eventually(lambda: next((query for query in scenes if query.stopped), None))
        [second] = [query for query in scenes if query is not first]
        waiting, seen = scenes[second], second.observations
        eventually(lambda: second.observations > seen + 50, what="observations beyond the patience")
        assert not second.stopped
        assert waiting.state() is RunnerState.RUNNING
        scenes[first].library.queries[-1].begun = True
        waiting.stops(second)
        waiting.has_queries(2)


def test_silent_site_delays_the_start_of_no_other_fragment() -> None:
    slot = StartSlot(lambda: True)
    with running_scene(slot=slot, answers=False) as silent, running_scene(slot=slot) as other:
        run_first_query(other)
        assert silent.state() is RunnerState.WAITING
        silent.agent.answers.set()
        eventually(lambda: silent.runner.status().error, what="the failed start is reported")
        run_first_query(silent)


def test_urgent_fragment_with_a_silent_site_delays_the_start_of_no_other_fragment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start_slot, "_POLLED_S", 60.0)
    slot, urgent = StartSlot(lambda: True), msgspec.structs.replace(FIRST, salience=5)
    with (
        running_scene(slot=slot, fragment=urgent, is_silent=True) as silent,
        running_scene(slot=slot) as other,
    ):
        run_first_query(other)
        assert silent.state() is RunnerState.WAITING


def test_query_starts_soon_after_a_silent_site_answers_however_often_it_did_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_state, "_RETRY_PAUSES_S", (0.1, 60.0))
    with capture_logs() as logs, running_scene(is_silent=True) as scene:
        eventually(lambda: scene.agent.refusals >= 5, timeout=10, what="five attempts")
        assert scene.runner.status().error == "the site n1 is silent"
        assert scene.state() is RunnerState.WAITING
        scene.agent.is_silent = False
        run_first_query(scene)
        # The slot and the pauses of queries are as if nothing had failed.
        scene.library.queries[0].failure = QueryFailure("no memory")
        scene.has_queries(2)
    failed = [each["reason"] for each in logs if each["event"] == "fragment_failed"]
    assert failed == ["the site n1 is silent", "no memory"]


def test_pause_doubles_after_failed_queries_only_and_is_long_in_a_long_outage() -> None:
    progress, pauses = RunnerProgress(Accept(FIRST)), []
    for now, is_silence in (
        (0, True),
        (1_000, True),
        (2_000, False),
        (3_000, True),
        (4_000, False),
        (59_999, True),
        (60_000, True),
        (70_000, False),
    ):
        progress, pause_s = progress.after_failure("no answer", now, is_silence=is_silence)
        pauses.append(pause_s)
    assert pauses == [0.05, 0.05, 0.1, 0.05, 0.2, 0.05, 0.8, 0.4]
    assert (progress.failures, progress.error_since) == (8, 0)
    progress, pause_s = progress.without_error().after_failure("it", 90_000, is_silence=False)
    assert (pause_s, progress.error_since) == (0.1, 90_000)


def test_wait_for_memory_begins_again_after_a_reverted_change() -> None:
    patience_s = 0.5
    with running_scene(has_memory=lambda: False, memory_patience_s=patience_s) as scene:
        query = run_first_query(scene)
        for version in (SECOND, FIRST):
            scene.runner.accept(version)
            seen = query.observations
            eventually(lambda seen=seen: query.observations > seen + 5)
        reverted_at = time.monotonic()
        eventually(lambda: time.monotonic() > reverted_at + patience_s)
        assert not query.stopped
        changed_at = time.monotonic()
        scene.runner.accept(SECOND)
        scene.stops(query)
        assert time.monotonic() >= changed_at + patience_s


def test_first_query_runs_once_it_has_caught_up(scene: RunnerScene) -> None:
    scene.reaches(RunnerState.STARTING)
    assert scene.runner.status().state == "starting"
    assert scene.runner.frontier is None
    query = run_first_query(scene)
    eventually(lambda: scene.runner.status().frontier == 1000, timeout=10, what="the frontier")
    assert scene.runner.status().state == "running"
    assert scene.agent.attributes["read"] == {"raw": 1000 - FIRST.lookback_ms}
    scene.runner.stop()
    assert query.stopped
    assert scene.state() is RunnerState.STOPPED


def test_changed_fragment_is_handed_over_when_its_query_has_caught_up(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    assert scene.runner.status().fingerprint == SECOND.fingerprint
    scene.reaches(RunnerState.HANDING_OVER)
    assert scene.runner.status().active == FIRST.fingerprint
    assert scene.runner.status().queries == 2
    assert not first.stopped
    scene.library.queries[1].frontier = 2000
    scene.reaches(RunnerState.RUNNING)
    assert scene.runner.status().active == SECOND.fingerprint
    scene.stops(first)
    assert scene.runner.status().batches == 2


def test_query_starts_and_takes_over_without_waiting_for_the_usual_observation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_state, "_OBSERVE_PERIOD_S", 60.0)
    with running_scene() as scene:
        run_first_query(scene)
        scene.runner.accept(SECOND)
        scene.reaches(RunnerState.HANDING_OVER)
        scene.library.queries[1].frontier = 2000
        scene.reaches(RunnerState.RUNNING)


def test_candidate_that_fails_at_its_first_tick_never_takes_over(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.has_queries(2)
    candidate = scene.library.queries[1]
    candidate.frontier = 1000
    observed = candidate.observations
    eventually(lambda: candidate.observations >= observed + 3, what="decisions of the runner")
    candidate.failure = QueryFailure("no such measure")
    scene.has_queries(3)
    assert not first.stopped
    assert scene.runner.status().active == FIRST.fingerprint


def test_candidate_takes_over_without_a_tick_after_its_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_TRIAL_S", 0.0)
    with running_scene() as scene:
        first = run_first_query(scene)
        scene.runner.accept(SECOND)
        scene.has_queries(2)
        scene.library.queries[1].frontier = 1000
        scene.stops(first)
        assert scene.runner.status().active == SECOND.fingerprint


def test_outdated_candidate_that_does_not_catch_up_is_abandoned(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.has_queries(2)
    scene.runner.accept(THIRD)
    scene.has_queries(3)
    assert scene.library.queries[1].stopped
    assert scene.library.queries[2].fragment == THIRD
    assert not first.stopped


def test_candidate_ends_if_the_active_version_is_accepted_again(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.has_queries(2)
    scene.runner.accept(FIRST)
    scene.stops(scene.library.queries[1])
    assert scene.runner.status().active == FIRST.fingerprint
    assert not first.stopped
    assert len(scene.library.queries) == 2


def test_failed_candidate_is_retried_while_the_active_query_continues(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.HANDING_OVER)
    assert (scene.runner.status().error, scene.runner.status().error_since) == (None, None)
    before = system_clock()
    scene.library.queries[1].failure = QueryFailure("a trace\nat Spark", summary="no memory")
    eventually(lambda: scene.runner.status().error == "no memory", timeout=10, what="the error")
    since = scene.runner.status().error_since
    assert since is not None
    assert before <= since <= system_clock()
    scene.reaches(RunnerState.RUNNING)
    assert not first.stopped
    scene.has_queries(3)
    assert scene.library.queries[2].fragment == SECOND
    scene.library.queries[2].failure = QueryFailure("no disk")
    eventually(lambda: scene.runner.status().error == "no disk", timeout=10, what="the error")
    assert scene.runner.status().error_since == since


def test_failure_is_logged_in_the_one_line_of_the_status_and_its_trace_for_debugging(
    scene: RunnerScene,
) -> None:
    query = run_first_query(scene)
    trace = "Traceback (most recent call last):\n  at Spark\nMemoryError: no memory"
    with capture_logs() as logs:
        query.failure = QueryFailure(trace, summary="MemoryError: no memory")
        scene.has_queries(2)
    error = scene.runner.status().error
    assert error == "MemoryError: no memory"
    logged = [each for each in logs if "fail" in each["event"]]
    assert logged == [
        {"event": "fragment_failed", "log_level": "warning", "fragment": "f", "reason": error},
        {"event": "fragment_failure_traced", "log_level": "debug", "fragment": "f", "trace": trace},
    ]


def test_failed_stop_is_logged_in_one_line(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    query.stop_error = RuntimeError("no answer\n  at Spark")
    with capture_logs() as logs:
        scene.runner.set_load(LoadStatus(shed_since=5))
        scene.stops(query)
        scene.reaches(RunnerState.SHED)
        eventually(
            lambda: any(each["event"] == "query_stop_failed" for each in logs), what="the event"
        )
    assert {each["reason"] for each in logs if "reason" in each} == {"no answer"}


def test_failed_active_query_leaves_the_candidate_which_decides(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.HANDING_OVER)
    first.failure = QueryFailure("lost")
    scene.reaches(RunnerState.STARTING)
    eventually(
        lambda: scene.agent.attributes.get("decides") == SECOND.fingerprint,
        timeout=10, what="the candidate decides",
    )  # fmt: skip


def test_fenced_fragment_rests_until_it_is_accepted_anew(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    scene.agent.claim("panes")
    query.frontier = 2000
    scene.reaches(RunnerState.FENCED)
    scene.stops(query)
    assert scene.runner.status().state == "fenced"
    assert scene.runner.status().error == "epoch 2 owns the stream"
    scene.runner.accept(FIRST)
    assert scene.runner.status().state != "fenced"
    run_first_query(scene)
    assert scene.agent.epoch == 3


def test_fence_that_the_engine_reports_stops_all_queries(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.HANDING_OVER)
    scene.library.queries[1].failure = QueryFailure("refused", is_fenced=True)
    scene.reaches(RunnerState.FENCED)
    scene.stops(first)
    assert scene.runner.status().queries == 0


def test_shed_fragment_has_no_query_until_it_is_resumed(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    eventually(lambda: scene.runner.status().frontier == 1000, timeout=10, what="the frontier")
    scene.runner.set_load(LoadStatus(shed_since=5))
    scene.reaches(RunnerState.SHED)
    scene.stops(query)
    status = scene.runner.status()
    assert (status.state, status.queries, status.shed_since) == ("shed", 0, 5)
    assert scene.runner.frontier == 1000
    scene.runner.set_load(LoadStatus())
    scene.has_queries(2)
    scene.reaches(RunnerState.STARTING)


def test_text_of_a_fence_without_its_marker_is_an_ordinary_failure(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    query.failure = QueryFailure("a log line about FencedError")
    scene.has_queries(2)
    scene.reaches(RunnerState.STARTING)


def test_stop_ends_both_queries_though_the_first_raises(scene: RunnerScene) -> None:
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.HANDING_OVER)
    first.stop_error = RuntimeError("the engine does not answer")
    scene.runner.stop()
    assert [query.stopped for query in scene.library.queries] == [True, True]
    assert scene.state() is RunnerState.STOPPED


def test_fence_rests_the_fragment_though_the_query_cannot_be_stopped(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    query.stop_error = RuntimeError("the engine does not answer")
    query.failure = QueryFailure("refused", is_fenced=True)
    scene.reaches(RunnerState.FENCED)
    scene.stops(query)
    assert scene.state() is RunnerState.FENCED
    assert scene.agent.epoch == 1


def test_fence_that_a_start_raises_rests_the_fragment(scene: RunnerScene) -> None:
    run_first_query(scene)
    scene.library.start_error = RuntimeError("fenced")
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.FENCED)
    assert scene.runner.status().queries == 0


def test_fence_that_a_stop_raises_rests_the_fragment(
    scene: RunnerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_TRIAL_S", 0.5)
    first = run_first_query(scene)
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.HANDING_OVER)
    first.stop_error = RuntimeError("fenced")
    scene.library.queries[1].frontier = 1000
    scene.reaches(RunnerState.FENCED)
    scene.stops(scene.library.queries[1])


def test_query_whose_stop_raises_is_stopped_again_until_it_ends(
    scene: RunnerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_TRIAL_S", 0.5)
    first = run_first_query(scene)
    first.stop_error = RuntimeError("the engine does not answer")
    scene.runner.accept(SECOND)
    scene.reaches(RunnerState.HANDING_OVER)
    scene.library.queries[1].frontier = 1000
    scene.reaches(RunnerState.RUNNING)
    eventually(lambda: first.stops >= 2, timeout=10, what="the second stop")
    first.stop_error = None
    eventually(lambda: first.ended, timeout=10, what="the end of the query")
    stops = first.stops
    scene.runner.stop()
    assert first.stops == stops
    assert scene.library.queries[1].stops == 1


def test_stopped_runner_stops_a_query_again_whose_stop_raises(scene: RunnerScene) -> None:
    query = run_first_query(scene)
    query.stop_error = RuntimeError("the engine does not answer")
    scene.runner.stop()
    assert query.stops > 1
