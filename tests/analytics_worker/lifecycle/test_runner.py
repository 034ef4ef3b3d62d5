"""A fragment on real Spark over a real storage agent, against the oracle."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from analytics.plan.expressions import Attribute, Comparison, Literal, Measure, Source, Value
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.resumption import resume, subplan
from analytics.plan.status import FragmentStatus
from analytics_worker.lifecycle.runner_state import LoadStatus
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.spark.scheduler_pools import pool_of
from analytics_worker.spark.source import SourceOptions, StreamReader
from analytics_worker.streaming_library import QueryFailure
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RAW
from tests.analytics_worker.runner_context import running
from tests.analytics_worker.ticks import at_ticks
from tests.support.conditions import eventually
from tests.support.leases import granted
from tests.support.traffic import Traffic

PANES = (
    Pane(id="cpu", source=Source("cpu"), by=("entityID",), width_ms=1000),
    Pane(
        id="mem",
        source=Source("mem", predicate=Comparison("==", Attribute("group"), Literal("even"))),
        by=(),
        width_ms=1000,
    ),
)
WINDOWS = (
    Window(id="cpu-3", pane="cpu", size_ms=3000, every_ms=1000),
    Window(id="mem-10", pane="mem", size_ms=10_000, every_ms=2000),
)


def fragment(target: str, since: int, *, both: bool) -> Whole:
    average = Insight(
        uid="average",
        expression=Measure("AVG", "cpu-3"),
        by=("entityID",),
        every_ms=1000,
        since=since,
        filter=Comparison(">", Measure("AVG", "cpu-3"), Literal(20.0)),
    )
    total = Insight(
        uid="total", expression=Measure("SUM", "mem-10"), by=(), every_ms=2000, since=since
    )
    if both:
        plan = Plan(insights=(average, total), windows=WINDOWS, panes=PANES)
    else:
        plan = Plan(insights=(average,), windows=WINDOWS[:1], panes=PANES[:1])
    return Whole(
        id="site", source=StreamLocation("n1", RAW), target=StreamLocation("n1", target), plan=plan
    )


def expected(agent: AgentClient, since: int, until: int) -> dict[tuple[str, str, int], float]:
    points = pa.Table.from_pylist(
        [
            {"metric": s.metric, "entity": s.entity, "grp": s.group, "ts": v.ts, "value": v.value}
            for node in agent.get(latest=False)
            for s in node.data
            for v in s.values
        ]
    )
    assert points.num_rows
    queries = {
        "average": (
            "select '{\"entityID\":\"' || entity || '\"}', t, avg(value) from ticks, points "
            "where metric = 'cpu' and ts > t - 3000 and ts <= t "
            "group by entity, t having avg(value) > 20",
            1000,
        ),
        "total": (
            "select '{}', t, sum(value) from ticks, points where metric = 'mem' "
            "and grp = 'even' and ts > t - 10000 and ts <= t group by t",
            2000,
        ),
    }
    return at_ticks(queries, points, since, until)


@pytest.mark.timeout(240)
def test_results_equal_the_oracle_through_change_restart_and_late_points(
    spark: SparkSession, agent: AgentClient, target: str
) -> None:
    since = agent.info(RAW).frontier
    traffic = Traffic()
    with running(spark, agent, fragment(target, since, both=False)) as runner:
        for batch in traffic.batches(8):
            agent.put(batch)
        runner.accept(fragment(target, since, both=True))
        for batch in traffic.batches(12):
            agent.put(batch)

        def has_results() -> bool:
            status = runner.status()
            assert status.error is None
            return status.rows_written > 0

        eventually(has_results, timeout=60, what="results")
    with running(spark, agent, fragment(target, since, both=True)) as runner:
        for batch in traffic.batches(5):
            agent.put(batch)
        end = time.time_ns() // 1_000_000
        late = agent.info(RAW).late
        assert late
        eventually(lambda: runner.status().frontier > end, timeout=60, what="the last window")

        def equal() -> bool:
            rows = current_results(agent.read(target).table)
            found = {
                (r["insight"], r["key"], r["ts"]): r["value"]
                for r in rows.to_pylist()
                if r["ts"] <= end
            }
            right = expected(agent, since, end)
            assert found.keys() == right.keys(), (
                sorted(found.keys() - right.keys())[:5],
                sorted(right.keys() - found.keys())[:5],
            )
            return found == pytest.approx(right, rel=1e-9)

        eventually(equal, timeout=60, what="all results equal the oracle's")
        status = runner.status()
        assert status.rows_dropped == 0
        assert status.queries == 1
        assert max(agent.read(target).table["revision"].to_pylist()) > 0


@pytest.mark.timeout(240)
def test_shed_fragment_continues_where_its_results_end(
    spark: SparkSession, agent: AgentClient, target: str
) -> None:
    since = agent.info(RAW).frontier
    urgent = msgspec.structs.replace(fragment(target, since, both=False), salience=5)
    scheduler = spark.sparkContext._jsc.sc()
    pool = scheduler.getPoolForName(pool_of(5)).get()
    assert (pool.weight(), pool.minShare()) == (6, 1)
    with running(spark, agent, urgent) as runner:
        eventually(lambda: runner.frontier, timeout=60, what="it runs")
        # Its tasks run in the pool of its salience.
        eventually(lambda: not pool.schedulableQueue().isEmpty(), timeout=60, what="a task")
        runner.set_load(LoadStatus(shed_since=1))
        eventually(lambda: runner.status().queries == 0, timeout=60, what="it rests")
        status, frontier = runner.status(), runner.frontier
        assert (status.state, status.shed_since, frontier) == ("shed", 1, status.frontier)
        for batch in Traffic(metrics=("cpu",), entities=("a",), late_every=10**9).batches(2):
            agent.put(batch)
        end = time.time_ns() // 1_000_000
        assert runner.status().frontier == frontier
        runner.set_load(LoadStatus())
        eventually(lambda: runner.status().frontier > end, timeout=60, what="what it left out")
        right = {each for each in expected(agent, since, end) if each[0] == "average"}
        rows = current_results(agent.read(target).table).to_pylist()
        assert right
        assert right == {(r["insight"], r["key"], r["ts"]) for r in rows if r["ts"] <= end}


@pytest.mark.timeout(240)
def test_failing_version_does_not_stop_the_running_one(
    spark: SparkSession, agent: AgentClient, target: str
) -> None:
    since = agent.info(RAW).frontier
    good = fragment(target, since, both=False)
    nonsense = msgspec.structs.replace(good.plan.insights[0], expression=Value())
    bad = msgspec.structs.replace(
        good, plan=msgspec.structs.replace(good.plan, insights=(nonsense,))
    )
    batches = Traffic().batches(120)
    with running(spark, agent, good) as runner:

        def until(condition: Callable[[FragmentStatus], bool], what: str) -> None:
            def holds() -> bool:
                agent.put(next(batches))
                return condition(runner.status())

            eventually(holds, timeout=60, what=what)

        until(lambda status: status.state == "running", "the good one runs")
        runner.accept(bad)
        until(lambda status: status.state == "failed" and bool(status.error), "the bad one failed")
        failed = runner.status()
        assert failed.error_since is not None
        assert "Traceback" not in (failed.error or "")
        before = runner.status().frontier
        until(lambda status: status.frontier > before, "the good one goes on")
        runner.accept(good)
        until(lambda status: status.state == "running", "all is well again")
        assert runner.status().error is None


def test_query_with_an_epoch_of_an_ended_lease_fails_as_fenced(
    spark: SparkSession, agent: AgentClient, target: str, epoch: int, tmp_path: Path
) -> None:
    info = agent.info(RAW)
    whole = fragment(target, info.frontier, both=False)
    resumption = resume(whole.plan, info.frontier, set())
    agent.claim(target)
    lease = granted(agent.url, whole.target, epoch, tmp_path)
    query = SparkLibrary(spark, agent.url).run_whole(
        whole, resumption, info.head, lease, access=None
    )
    batches = Traffic().batches(120)

    def failure() -> QueryFailure | None:
        agent.put(next(batches))
        return query.failure

    try:
        assert eventually(failure, timeout=60, what="the query ends").is_fenced
    finally:
        query.stop()


@pytest.mark.timeout(240)
def test_coarser_version_takes_over_before_its_next_tick(
    spark: SparkSession, agent: AgentClient, target: str
) -> None:
    frontier = agent.info(RAW).frontier
    hours = next(each for each in (3_600_000, 3_000_000) if each - frontier % each > 180_000)
    both = fragment(target, frontier, both=True)
    window = msgspec.structs.replace(WINDOWS[1], size_ms=hours, every_ms=hours)
    total = msgspec.structs.replace(both.plan.insights[1], every_ms=hours)
    plan = msgspec.structs.replace(both.plan, windows=(WINDOWS[0], window))
    both = msgspec.structs.replace(
        both, plan=msgspec.structs.replace(plan, insights=(both.plan.insights[0], total))
    )
    coarse = msgspec.structs.replace(both, plan=subplan(plan, (total,)))
    with running(spark, agent, both) as runner:
        eventually(lambda: runner.frontier, timeout=60, what="both run")
        runner.accept(coarse)

        def runs_alone() -> bool:
            status = runner.status()
            assert status.error is None
            return (status.active, status.queries) == (coarse.fingerprint, 1)

        eventually(runs_alone, timeout=30, what="the coarser one took over")
        assert runner.frontier == frontier // hours * hours
        assert runner.status().frontier > frontier


def test_ticks_before_the_start_of_a_query_are_closed_at_once(
    agent: AgentClient,
) -> None:
    frontier = agent.info(RAW).frontier
    grain = next(each for each in (3_600_000, 3_000_000) if each - frontier % each > 60_000)
    options = {"url": agent.url, "stream": RAW, "grain": str(grain), "panes": "[]"}
    reader = StreamReader(SourceOptions.parse(options))
    read = reader.latestOffset(reader.initialOffset(), None)
    assert read["promise"] == frontier // grain * grain
    closed = reader.latestOffset(read, None)
    assert reader.partitions(read, closed), "the micro-batch after a promise closes its windows"
    assert not reader.partitions(closed, reader.latestOffset(closed, None)), "there is time"
