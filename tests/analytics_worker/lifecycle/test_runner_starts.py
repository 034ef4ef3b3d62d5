"""What the start of a runner's query means for the other queries of the worker."""

from pathlib import Path
from typing import cast

import msgspec
import pytest

from analytics.plan.fragments import Partial, Whole
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.lifecycle import start, start_slot
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.runner_state import Accept, RunnerProgress
from analytics_worker.lifecycle.silence import SilenceMonitor
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.query_lease import QueryLease
from analytics_worker.streaming_library import Counts, QueryFailure, StreamingLibrary
from mistbow.client.agent import AgentClient
from tests.analytics_worker.lifecycle.fragments import whole
from tests.analytics_worker.lifecycle.runner_scene import (
    FIRST,
    FakeAgent,
    FakeLibrary,
    FakeQuery,
    running_scene,
)
from tests.support.conditions import eventually


class Owner:
    """A further owner of the start slot."""


def test_started_runner_has_its_rank_before_its_sites_have_answered() -> None:
    slot, urgent = StartSlot(lambda: True), msgspec.structs.replace(FIRST, salience=5)
    with running_scene(slot=slot, fragment=urgent, answers=False):
        assert not slot.acquire(Owner(), FIRST)


def test_start_describes_each_stream_once() -> None:
    with running_scene(frontier=5000) as scene:
        scene.has_queries(1)
        assert scene.agent.descriptions == 2


def test_start_long_after_the_check_of_its_sites_describes_the_target_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start, "_DESCRIBED_S", 0.0)
    with running_scene(frontier=5000) as scene:
        scene.has_queries(1)
        assert scene.agent.descriptions == 3


def _corrections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what corrections do from now on: they search, and may compute and check."""
    done: list[str] = []

    def step(corrector: Corrector, frontier: int, *, may_compute: bool) -> None:
        del corrector, frontier
        done.append("compute" if may_compute else "search")

    monkeypatch.setattr(Corrector, "step", step)
    monkeypatch.setattr(SilenceMonitor, "check", lambda *_: done.append("check"))
    return done


def _running_fragment(slot: StartSlot, folder: Path) -> FragmentRunner:
    fragment = whole()
    library, agent = cast("StreamingLibrary", FakeLibrary()), cast("AgentClient", FakeAgent())
    running = FragmentRunner(library, agent, fragment, slot)
    query = FakeQuery(fragment, QueryLease.create(agent.url, fragment.target, folder))
    running._progress = running._progress.with_queries(query, None)
    return running


def test_corrections_only_search_for_late_data_while_a_query_of_the_worker_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slot, done = StartSlot(lambda: True), _corrections(monkeypatch)
    correcting, starting = _running_fragment(slot, tmp_path), Owner()
    assert slot.acquire(starting, FIRST)
    slot.release(starting)
    correcting._correct()
    assert done == ["search"]
    slot.end_start(starting)
    correcting._correct()
    assert done == ["search", "compute", "check"]
    assert slot.acquire(starting, FIRST)
    monkeypatch.setattr(start_slot, "_START_S", 0.0)
    correcting._correct()
    assert done == ["search", *["compute", "check"] * 2]


@pytest.mark.parametrize("failure", [None, QueryFailure("lost")])
def test_start_of_a_query_ends_with_its_first_results_or_its_failure(
    failure: QueryFailure | None,
) -> None:
    slot, correcting = StartSlot(lambda: True), Owner()
    with running_scene(slot=slot) as scene:
        scene.has_queries(1)
        assert not slot.may_correct(correcting)
        (query,) = scene.library.queries
        query.frontier, query.failure = 1000, failure
        eventually(lambda: slot.may_correct(correcting), timeout=10, what="the end of the start")


def test_corrections_wait_for_starts_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slot, done = StartSlot(lambda: True), _corrections(monkeypatch)
    correcting = _running_fragment(slot, tmp_path)
    assert slot.acquire(Owner(), FIRST)
    monkeypatch.setattr(start_slot, "_MAX_CORRECTION_WAIT_S", 0.0)
    correcting._correct()
    assert done == ["compute", "check"]


@pytest.mark.parametrize(
    ("fragment", "batches", "is_active", "has_started"),
    [
        (whole(), 0, False, False),
        (whole(), 1, False, True),
        (whole(), 0, True, True),
        (FIRST, 0, False, True),
    ],
)
def test_query_whose_results_have_stopped_ends_a_micro_batch_before_the_next_query_starts(
    tmp_path: Path, fragment: Whole | Partial, batches: int, is_active: bool, has_started: bool
) -> None:
    query = FakeQuery(
        fragment, QueryLease.create("", fragment.target, tmp_path), counts=Counts(batches=batches)
    )
    progress = RunnerProgress(Accept(fragment))
    assert progress.has_started
    active = FakeQuery(fragment, query.lease) if is_active else None
    assert progress.with_queries(active, query).has_started is has_started
    query.begun = False
    assert not progress.with_queries(active, query).has_started
