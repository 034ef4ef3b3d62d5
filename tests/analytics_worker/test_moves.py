"""Fragments that move between two runners, as between workers: on real Spark, over a real agent."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Fragment, Partial, StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.lifecycle.runner import FragmentRunner
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RAW, panes_stream, results_stream, states_stream
from tests.analytics_worker.runner_context import running
from tests.analytics_worker.ticks import at_ticks
from tests.support.availability import AvailabilityMeter
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = pytest.mark.timeout(400)

SECOND = 1000


def whole(group: str, since: int) -> Whole:
    """Return a fragment with an average over 3 s, and a running count."""
    name = f"{group}.cpu"
    points = ("points",)
    pane = Pane(id="cpu", source=Source(name), by=("entityID",), width_ms=SECOND, contents=points)
    windows = (
        Window(id="cpu-3", pane="cpu", size_ms=3 * SECOND, every_ms=SECOND),
        Window(
            id="cpu-all", pane="cpu", size_ms=SECOND, every_ms=SECOND, contents=points, start=since
        ),
    )
    insights = tuple(
        Insight(
            uid=uid, expression=Measure(function, window), by=("entityID",), every_ms=SECOND,
            since=since,
        )
        for uid, function, window in (
            ("average", "AVG", "cpu-3"),
            ("number", "RUNNING_COUNT", "cpu-all"),
        )
    )  # fmt: skip
    return Whole(
        id=group,
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", results_stream(group)),
        plan=Plan(insights=insights, windows=windows, panes=(pane,)),
    )


def stored(agent: AgentClient, metric: str) -> pa.Table:
    """Return all stored points of a metric."""
    return pa.Table.from_pylist(
        [
            {"entity": series.entity, "ts": point.ts, "value": point.value}
            for node in agent.get(metric=metric, latest=False)
            for series in node.data
            for point in series.values
        ]
    )


def expected(points: pa.Table, since: int, until: int) -> dict[tuple[str, str, int], float]:
    key = "select '{\"entityID\":\"' || entity || '\"}', t, "
    queries = {
        "average": (
            f"{key} avg(value) from ticks, points "
            "where ts > t - 3000 and ts <= t group by entity, t",
            SECOND,
        ),
        "number": (
            f"{key} count(*) from ticks, points where ts <= t "
            "group by entity, t having max(ts) > t - 1000",
            SECOND,
        ),
    }
    after = points.filter(pc.greater(points["ts"], since))
    numbers = at_ticks({"number": queries["number"]}, after, since, until)
    return at_ticks({"average": queries["average"]}, points, since, until) | numbers


class DyingClient(AgentClient):
    """A client of an agent for a worker that dies at a step of a handover.

    ``step``: a stream that is the last one it claims, or ``advance``: it claims all, but does not
    describe its results. ``died``: set by then; each later claim and change fails.
    """

    def __init__(self, url: str, step: str) -> None:
        super().__init__(url)
        self.step = step
        self.died = threading.Event()

    def claim(self, name: str) -> Any:
        self._check()
        claimed = super().claim(name)
        if name == self.step:
            self.died.set()
        return claimed

    def info(self, name: str) -> Any:
        self._check()
        return super().info(name)

    def advance(self, *args: Any, **named: Any) -> Any:
        if self.step == "advance":
            self.died.set()
        self._check()
        return super().advance(*args, **named)

    def _check(self) -> None:
        if self.died.is_set():
            raise UnavailableError("the worker is dead")


@contextmanager
def moving(spark: SparkSession, agent: AgentClient, fragment: Fragment) -> Iterator["Mover"]:
    """Run a fragment within the ``with``, on a runner that the mover replaces."""
    with ExitStack() as stack:
        yield Mover(spark, agent, fragment, stack)


class Mover:
    """Moves a fragment from runner to runner."""

    def __init__(
        self, spark: SparkSession, agent: AgentClient, fragment: Fragment, stack: ExitStack
    ) -> None:
        self._spark = spark
        self._agent = agent
        self._stack = stack
        self.fragment = fragment
        self.runner = self.start()
        eventually(lambda: self.runner.status().active, timeout=60, what="the fragment runs")

    def start(self, *, as_orphan: bool = False) -> FragmentRunner:
        """Start the fragment on another runner, beside the present one.

        ``as_orphan``: as if the present one were dead.
        """
        runner = self._stack.enter_context(running(self._spark, self._agent, self.fragment))
        if as_orphan:
            runner.note_orphan(True)
        return runner

    def start_dying(self, step: str) -> None:
        """Start the fragment on another runner, which dies at a step of the handover."""
        agent = DyingClient(self._agent.url, step)
        self._stack.callback(agent.close)
        with running(self._spark, agent, self.fragment):
            eventually(agent.died.is_set, timeout=90, what=f"the new runner dies at {step}")

    def take_over(self, runner: FragmentRunner) -> None:
        """Wait until a runner has taken over, then stop the former one."""
        eventually(lambda: runner.status().active, timeout=90, what="the new runner takes over")
        former, self.runner = self.runner, runner
        eventually(
            lambda: former.status().state == "fenced", timeout=30, what="the former one is fenced"
        )
        former.stop()


def check_results(agent: AgentClient, target: str, metric: str, since: int, end: int) -> None:
    """Wait until the results at the ticks after ``since`` up to ``end`` (ms) are the oracle's."""

    def equal() -> bool:
        rows = current_results(agent.read(target).table).to_pylist()
        found = {
            (r["insight"], r["key"], r["ts"]): r["value"] for r in rows if since < r["ts"] <= end
        }
        right = expected(stored(agent, metric), since, end)
        assert found.keys() == right.keys(), (
            sorted(found.keys() - right.keys())[:5],
            sorted(right.keys() - found.keys())[:5],
        )
        assert found == pytest.approx(right, rel=1e-9)
        return bool(found)

    eventually(equal, timeout=90, what="all results equal the oracle's")


@pytest.mark.soak
def test_moved_fragment_with_accumulators_equals_the_oracle(
    spark: SparkSession, agent: AgentClient
) -> None:
    since = agent.info(RAW).frontier // SECOND * SECOND
    fragment = whole("moved", since)
    metric, target = "moved.cpu", fragment.target.stream
    traffic = Traffic(metrics=(metric,), late_every=61)
    meter = AvailabilityMeter(agent.url, target, "average", SECOND)
    with Sender(agent.url, traffic), moving(spark, agent, fragment) as mover, meter:
        # A runner claims a stream without results at once.
        eventually(lambda: agent.info(target).frontier > 0, what="the first results are stored")
        first = agent.info(target).epoch
        for as_orphan in (False, True):
            mover.take_over(mover.start(as_orphan=as_orphan))
        assert agent.info(target).epoch == first + 2
        assert agent.info(states_stream(target)).epoch == first + 2

        # A second copy that ends before it takes over changes nothing.
        mover.start().stop()
        assert agent.info(target).epoch == first + 2
        before = mover.runner.status().frontier
        eventually(lambda: mover.runner.status().frontier > before, what="the first one goes on")

        # If the former runner dies before the new one takes over, the new one goes on from there.
        successor = mover.start()
        eventually(lambda: successor.status().queries, timeout=60, what="the second copy starts")
        mover.runner.stop()
        eventually(lambda: successor.status().active, timeout=90, what="it takes over")
        late = agent.info(RAW).late
        eventually(lambda: agent.info(RAW).late > late + 2, what="late points after the moves")
        end = system_clock()
        eventually(lambda: successor.status().frontier > end, timeout=60, what="the last tick")

        check_results(agent, target, metric, since, end)
    print("the longest pauses:", meter.pauses()[:5])


@pytest.mark.soak
def test_death_at_each_step_of_a_handover_costs_no_result(
    spark: SparkSession, agent: AgentClient
) -> None:
    since = agent.info(RAW).frontier // SECOND * SECOND
    fragment = whole("dying", since)
    metric, target = "dying.cpu", fragment.target.stream
    traffic = Traffic(metrics=(metric,), late_every=61)
    with Sender(agent.url, traffic), moving(spark, agent, fragment) as mover:
        eventually(lambda: agent.info(target).frontier > 0, what="the first results are stored")
        for step in (states_stream(target), target, "advance"):
            mover.start_dying(step)
            mover.take_over(mover.start())
        end = system_clock()
        eventually(lambda: mover.runner.status().frontier > end, timeout=60, what="the last tick")
        check_results(agent, target, metric, since, end)


def test_moved_partial_stores_each_pane_once(spark: SparkSession, agent: AgentClient) -> None:
    since = agent.info(RAW).frontier // SECOND * SECOND
    metric, target = "paned.cpu", panes_stream("paned")
    pane = Pane(id="cpu", source=Source(metric), by=("entityID",), width_ms=SECOND)
    partial = Partial(
        id="paned",
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", target),
        panes=(pane,),
        grain_ms=SECOND,
        lookback_ms=3 * SECOND,
        begin=since,
    )
    traffic = Traffic(metrics=(metric,), late_every=61)
    with Sender(agent.url, traffic), moving(spark, agent, partial) as mover:
        for as_orphan in (False, True, False):
            mover.take_over(mover.start(as_orphan=as_orphan))
        end = system_clock()
        eventually(lambda: mover.runner.status().frontier > end + 5000, timeout=60)
    panes = agent.read(target).table.to_pylist()
    identities = Counter((row["key"], row["ts"], row["due"]) for row in panes)
    assert not [each for each, number in identities.items() if number > 1]
    counts: Counter[tuple[str, int]] = Counter()
    for row in panes:
        counts[row["key"], row["ts"]] += row["count"]
    points = Counter(
        (f'{{"entityID":"{row["entity"]}"}}', -(-row["ts"] // SECOND) * SECOND)
        for row in stored(agent, metric).to_pylist()
    )
    whole_ticks = {each for each in points if since + SECOND < each[1] <= end}
    assert whole_ticks
    assert {each: counts[each] for each in whole_ticks} == {
        each: points[each] for each in whole_ticks
    }
