"""Fragments, results and states for tests of correctors."""

from pathlib import Path

import pyarrow as pa

from analytics.plan.expressions import Measure, Source
from analytics.plan.fragments import Fragment, Merge, StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.evaluate.results import as_results
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.stateful.state_stream import StateAccess
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import RAW, STATES
from tests.support.leases import granted

WINDOWS = (Window(id="w", pane="p", size_ms=1000, every_ms=1000),)
EVER = 2**62


def store(agent: AgentClient, target: str, epoch: int, *rows: tuple[str, int, float]) -> None:
    """Store results (insight, tick in ms, value) of earlier ticks in the stream ``target``."""
    values = [{"insight": uid, "key": "{}", "ts": ts, "value": value} for uid, ts, value in rows]
    agent.append(target, as_results(pa.Table.from_pylist(values, INSIGHT_VALUES)), epoch=epoch)


def current(agent: AgentClient, target: str) -> set[tuple[str, int, float]]:
    rows = current_results(agent.read(target).table).to_pylist()
    return {(row["insight"], row["ts"], row["value"]) for row in rows}


def fragment(target: str, since: int, *uids: str, metric: str = "late.metric") -> Whole:
    insights = tuple(
        Insight(uid=uid, expression=Measure("SUM", "w"), by=(), every_ms=1000, since=since)
        for uid in uids
    )
    panes = (Pane(id="p", source=Source(metric), by=(), width_ms=1000),)
    plan = Plan(insights=insights, windows=WINDOWS, panes=panes)
    return whole(target, plan)


def whole(target: str, plan: Plan) -> Whole:
    return Whole(
        id="late", source=StreamLocation("n1", RAW), target=StreamLocation("n1", target), plan=plan
    )


def merge(name: str) -> Merge:
    """Return a merge of the panes of one site; ``name``: its id, and the end of its streams."""
    target = f"results/{name}"
    return Merge(
        id=name,
        sources=(StreamLocation("n1", f"panes/{name}"),),
        target=StreamLocation("n1", target),
        decisions=StreamLocation("n1", f"decisions/{name}"),
        plan=fragment(target, 0, "i").plan,
    )


def begun(library: SparkLibrary, agent: AgentClient, first: Fragment, epoch: int) -> Corrector:
    """Return a corrector that has begun to correct a fragment."""
    corrector = Corrector(library, agent)
    corrector.begin(first, epoch)
    return corrector


def counting_plan(metric: str, first: int) -> Plan:
    """Return a plan with a RUNNING_COUNT of a metric; ``first``: the first tick (ms)."""
    pane = Pane(id="q", source=Source(metric), by=(), width_ms=1000, contents=("points",))
    window = Window(
        id="c", pane="q", size_ms=1000, every_ms=1000, contents=("points",), start=first - 1000
    )
    insight = Insight(
        uid="count", expression=Measure("RUNNING_COUNT", "c"), by=(), every_ms=1000, since=first - 1
    )
    return Plan(insights=(insight,), windows=(window,), panes=(pane,))


def access_to(agent: AgentClient, states: str, folder: Path) -> StateAccess:
    """Create a stream of states, and return the access to it."""
    location = StreamLocation("n1", states)
    agent.create_stream(states, STATES)
    lease = granted(agent.url, location, agent.claim(states).epoch, folder)
    return StateAccess(agent.url, location, lease, str(folder / "lock"))
