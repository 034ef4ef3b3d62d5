"""Partial and merge fragments on real Spark over two real sites, against the oracle."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Merge, Partial, StreamLocation
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.spark.library import SparkLibrary
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RAW, decisions_stream, panes_stream, results_stream
from tests.analytics_worker.edge_and_cloud import EdgeAndCloud, edge_and_cloud
from tests.analytics_worker.runner_context import running
from tests.analytics_worker.ticks import at_ticks
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

PANES = (
    Pane(id="cpu", source=Source("cpu"), by=("entityID",), width_ms=1000),
    Pane(id="mem", source=Source("mem"), by=(), width_ms=2000),
)
WINDOWS = (
    Window(id="cpu-3", pane="cpu", size_ms=3000, every_ms=1000),
    Window(id="mem-60", pane="mem", size_ms=60_000, every_ms=2000),
)
REACH_MS = 60_000


@pytest.fixture(scope="module")
def sites(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeAndCloud]:
    with edge_and_cloud(tmp_path_factory) as sites:
        yield sites


def stored(sites: EdgeAndCloud) -> pa.Table:
    """Return the points of both sites as one table."""
    return pa.Table.from_pylist(
        [
            {"metric": series.metric, "entity": series.entity, "ts": v.ts, "value": v.value}
            for agent in sites.both
            for node in agent.get(latest=False)
            for series in node.data
            for v in series.values
        ]
    )


def frontier(sites: EdgeAndCloud) -> int:
    """Return the smaller of the two sites' frontiers (ms)."""
    return min(agent.info(RAW).frontier for agent in sites.both)


def plan(since: int, *, both: bool) -> Plan:
    average = Insight(
        uid="average", expression=Measure("AVG", "cpu-3"), by=("entityID",), every_ms=1000,
        since=since,
    )  # fmt: skip
    total = Insight(
        uid="total", expression=Measure("SUM", "mem-60"), by=(), every_ms=2000, since=since
    )
    if both:
        return Plan(insights=(average, total), windows=WINDOWS, panes=PANES)
    return Plan(insights=(average,), windows=WINDOWS[:1], panes=PANES[:1])


def partial(of: Plan, site: str, group: str, version: str, begin: int) -> Partial:
    name = f"{group}.{version}.{site}"
    return Partial(
        id=name,
        source=StreamLocation(site, RAW),
        target=StreamLocation(site, panes_stream(name)),
        panes=of.panes,
        grain_ms=of.grain_ms,
        lookback_ms=of.lookback_ms,
        begin=begin,
    )


def merge(of: Plan, group: str, *partials: Partial) -> Merge:
    return Merge(
        id=group,
        sources=tuple(one.target for one in partials),
        target=StreamLocation("cloud", results_stream(group)),
        decisions=StreamLocation("cloud", decisions_stream(group)),
        plan=of,
        patience_ms=5000,
    )


def expected(points: pa.Table, since: int, until: int) -> dict[tuple[str, str, int], float]:
    queries = {
        "average": (
            "select '{\"entityID\":\"' || entity || '\"}', t, avg(value) from ticks, points "
            "where metric = 'cpu' and ts > t - 3000 and ts <= t group by entity, t",
            1000,
        ),
        "total": (
            "select '{}', t, sum(value) from ticks, points where metric = 'mem' "
            "and ts > t - 60000 and ts <= t group by t",
            2000,
        ),
    }
    return at_ticks(queries, points, since, until)


def results_equal_the_oracle(sites: EdgeAndCloud, group: str, since: int, until: int) -> None:
    def equal() -> bool:
        rows = current_results(sites.cloud.read(results_stream(group)).table).to_pylist()
        found = {
            (r["insight"], r["key"], r["ts"]): r["value"] for r in rows if since < r["ts"] <= until
        }
        points = stored(sites)
        right = expected(points, since, until)
        assert found.keys() == right.keys(), (
            sorted(found.keys() - right.keys())[:5],
            sorted(right.keys() - found.keys())[:5],
        )
        assert found == pytest.approx(right, rel=1e-9)
        assert not [row for row in rows if row["missing"] and row["ts"] <= until]
        return bool(found)

    eventually(equal, timeout=90, what="all results equal the oracle's")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_results_equal_the_oracle_through_late_points_silence_and_restarts(
    spark: SparkSession, sites: EdgeAndCloud
) -> None:
    group = "all.fair"
    since = frontier(sites)
    small, whole = (plan(since, both=both) for both in (False, True))
    begin = since - REACH_MS
    batches = Traffic().batches(500)

    def until(condition, what: str, there: Sequence[AgentClient] = sites.both) -> None:
        def holds() -> bool:
            batch = next(batches)
            for place, agent in enumerate(there):
                agent.put(batch[place :: len(there)])
            return bool(condition())

        eventually(holds, timeout=120, what=what)

    def missing() -> set[str | None]:
        return set(sites.cloud.read(results_stream(group)).table["missing"].to_pylist())

    with ExitStack() as stack:
        at_cloud, at_edge = (partial(small, site, group, "v1", begin) for site in ("cloud", "edge"))
        for agent, one in ((sites.cloud, at_cloud), (sites.edge, at_edge)):
            stack.enter_context(running(spark, agent, one))
        first = merge(small, group, at_cloud, at_edge)
        with running(spark, sites.cloud, first) as merging:
            until(lambda: merging.status().rows_written, "results")

            # Another insight: other panes, in streams of their own, beside the first ones.
            cloud2, edge2 = (partial(whole, site, group, "v2", begin) for site in ("cloud", "edge"))
            stack.enter_context(running(spark, sites.cloud, cloud2))
            library = SparkLibrary(spark, sites.edge.url)
            edge_runner = FragmentRunner(library, sites.edge, edge2, StartSlot(lambda: True))
            edge_runner.start()
            second = merge(whole, group, cloud2, edge2)
            merging.accept(second)
            until(lambda: merging.status().active == second.fingerprint, "the new one runs")

            # The edge falls silent, and the others go on without it.
            edge_runner.stop()
            until(lambda: "edge" in missing(), "results without the edge, which name it")
            until(lambda: set(merging.status().missing) == {"edge"}, "the status names it too")

        # The merge restarts without any state while the edge is unreachable; its windows need panes
        # of the edge from before that.
        sites.edge_agent.kill()
        with running(spark, sites.cloud, second) as merging, ExitStack() as back:
            until(lambda: merging.status().active, "the merge runs", (sites.cloud,))
            sites.edge_agent.start()
            edge_again = back.enter_context(running(spark, sites.edge, edge2))
            before = merging.status().frontier
            until(lambda: merging.status().frontier > before + 5000, "it goes on")
            until(lambda: merging.status().correcting, "results are corrected")
            until(lambda: merging.status().missing == {}, "the edge is back")
            until(lambda: sites.edge.info(RAW).late > 5, "late points at the edge")
            end = time.time_ns() // 1_000_000
            until(lambda: merging.status().frontier > end + 10_000, "the last window")
            results_equal_the_oracle(sites, group, since, end)
            assert edge_again.status().rows_dropped == 0


@pytest.mark.timeout(600)
def test_moved_merge_equals_the_oracle(spark: SparkSession, sites: EdgeAndCloud) -> None:
    group = "moved.fair"
    since = frontier(sites)
    of = plan(since, both=True)
    partials = tuple(partial(of, site, group, "v1", since - REACH_MS) for site in ("cloud", "edge"))
    fragment = merge(of, group, *partials)
    traffic = Traffic()
    with ExitStack() as stack:
        for agent, one in zip(sites.both, partials, strict=True):
            stack.enter_context(Sender(agent.url, traffic))
            stack.enter_context(running(spark, agent, one))
        former = stack.enter_context(running(spark, sites.cloud, fragment))
        eventually(lambda: former.status().active, timeout=90, what="the merge runs")
        for agent in (sites.edge, sites.cloud):
            decisions = sites.cloud.info(decisions_stream(group)).epoch
            runner = stack.enter_context(running(spark, agent, fragment))
            eventually(lambda runner=runner: runner.status().active, timeout=90, what="the move")  # type: ignore[misc]
            eventually(lambda former=former: former.status().state == "fenced", what="the fence")  # type: ignore[misc]
            assert sites.cloud.info(decisions_stream(group)).epoch == decisions + 1
            former.stop()
            former = runner
        end = time.time_ns() // 1_000_000
        eventually(lambda: former.status().frontier > end, timeout=60, what="the last window")
        results_equal_the_oracle(sites, group, since, end)
