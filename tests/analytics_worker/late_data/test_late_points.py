"""The scan of late points, which a handover to a merge ends at the present head."""

from msgspec.structs import replace

from analytics.plan.expressions import Measure, Source
from analytics.plan.feeds import Feed
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.late_data.late_points import LatePointScanner
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW, RESULT_ROWS

EVER = 2**62


def whole(metric: str, since: int) -> Whole:
    plan = Plan(
        insights=(
            Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=1000, since=since),
        ),
        windows=(Window(id="w", pane="p", size_ms=1000, every_ms=1000),),
        panes=(Pane(id="p", source=Source(metric), by=(), width_ms=1000),),
    )
    location = StreamLocation("n1", RAW)
    return Whole(id="late", source=location, target=StreamLocation("n1", "results/x"), plan=plan)


def test_scan_that_is_ended_at_the_head_finds_no_later_rows(agent: AgentClient) -> None:
    tick = system_clock() // 1000 * 1000 - 60_000
    scanner = LatePointScanner(agent, whole("ended.metric", tick - 1), agent.info(RAW).head)
    agent.put([Point("ended.metric", "a", tick, 2.0)])
    scanner.end_at_head()
    assert not scanner.is_finished
    agent.put([Point("ended.metric", "a", tick + 5000, 2.0)])

    found = scanner.scan(EVER)
    assert found is not None
    spans, position = found
    assert [(span.first, span.last) for span in spans["i"]] == [(tick, tick)]
    assert position == scanner.until
    scanner.move_to(position)
    assert scanner.is_finished


def test_rows_of_a_feed_are_never_late_whatever_frontier_their_stream_has(
    agent: AgentClient,
) -> None:
    stream, fragment = "app/unfinished", whole("x", 0)
    agent.create_stream(stream, RESULT_ROWS)
    assert agent.info(stream).frontier <= 0
    source = StreamLocation("n1", stream, Feed(stream))
    scanner = LatePointScanner(agent, replace(fragment, source=source), 0)
    assert scanner.scan(5000) == ({}, 0)
    scanner.move_to(0)
    assert scanner.corrected_until == 5000
