"""The stored positions from which a merge continues to read panes and decisions."""

import pyarrow as pa
import pytest
from msgspec.structs import replace

from analytics.plan.fragments import Merge
from analytics_worker.late_data import late_panes
from analytics_worker.merge.decisions import Joined, Left, SiteDecision, row_of
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import EVENTS, PANES
from tests.analytics_worker.lifecycle.runner_scene import FakeQuery
from tests.analytics_worker.lifecycle.test_source_changes import merge_of, running
from tests.support.conditions import eventually


def store_panes(agent: AgentClient, merge: Merge, rows: int) -> None:
    """Create the streams of a merge's panes with a number of rows."""
    for source in merge.sources:
        agent.create_stream(source.stream, PANES)
        pane = {"pane": "p", "key": "{}", "ts": 1000, "due": 1000}
        pane |= {"sum": 1.0, "count": 1, "min": 1.0, "max": 1.0}
        agent.append(source.stream, pa.Table.from_pylist([pane] * rows, PANES))


def test_checkpoint_of_decisions_is_stored_under_the_epoch_of_their_own_stream(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_panes, "_CHECKPOINT_STEP", 1)
    both = merge_of("epochs", "a", "b")
    stream = both.decisions.stream
    agent.create_stream(stream, EVENTS)
    for _ in range(3):  # an epoch that the target does not reach
        agent.claim(stream)
    with running(agent, both) as merge:
        merge.take_over(1, 100_000)
        assert agent.info(both.target.stream).epoch < agent.info(stream).epoch
        merge.decide(SiteDecision(50_000, "b", Left()))
        head = agent.info(stream).head

        def is_stored() -> bool:
            return bool(agent.info(stream).attributes.get("checkpoint", {}).get("next") == head)

        eventually(is_stored, what="the checkpoint")
        # A runner that another one has fenced stores no checkpoint.
        epoch = agent.claim(stream).epoch
        joined = row_of(SiteDecision(60_000, "b", Joined()))
        agent.append(stream, joined, epoch=epoch)
        processed = agent.info(stream).head
        eventually(
            lambda: agent.info(both.target.stream).attributes["decided"] == processed,
            what="the decisions are processed",
        )
        assert is_stored()


def test_late_panes_are_recorded_again_only_for_another_plan(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeQuery, "read_to", lambda *_: {"a": 7})
    one = merge_of("recorded", "a")
    store_panes(agent, one, 7)
    other = replace(one, plan=replace(one.plan, insights=(replace(one.plan.insights[0], uid="j"),)))
    for number, fragment in enumerate((one, one, other)):
        with running(agent, fragment) as merge:
            merge.take_over(1, 100_000 + 1000 * number)
            [start] = merge.library.starts
            assert start.recorded == ({"a": 7} if number == 1 else {})


def test_late_panes_of_a_site_that_lost_its_store_are_recorded(
    agent: AgentClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeQuery, "read_to", lambda *_: {"a": 7})
    one = merge_of("lost", "a")
    store_panes(agent, one, 3)
    for number in range(2):
        with running(agent, one) as merge:
            merge.take_over(1, 100_000 + 1000 * number)
            [start] = merge.library.starts
            assert start.recorded == {}
