"""The reasons why insights have no value, from the points that a real agent has stored."""

import uuid

import msgspec
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from analytics.plan.expressions import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Measure,
    Source,
    Value,
)
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.lifecycle.silence import SilenceMonitor
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW, RESULT_ROWS

MALARIA = Comparison("==", Attribute("diagnosis"), Literal("malaria"))
HIGH = Comparison(">", Value(), Literal(100.0))


def plan(
    sources: dict[str, Source],
    expression: Expression,
    by: tuple[str, ...] = (),
    condition: Expression | None = None,
) -> Plan:
    """Return a plan with a window of 10 s for each source; its name is the name of the source."""
    return Plan(
        insights=(
            Insight(
                uid="i", expression=expression, by=by, every_ms=1000, since=0, filter=condition
            ),
        ),
        windows=tuple(
            Window(id=name, pane=f"{name}-pane", size_ms=10_000, every_ms=1000) for name in sources
        ),
        panes=tuple(
            Pane(id=f"{name}-pane", source=source, by=by, width_ms=1000)
            for name, source in sources.items()
        ),
    )


def put(agent: AgentClient, metric: str, entity: str, value: float, diagnosis: str) -> None:
    agent.put([Point(metric, entity, system_clock(), value, labels={"diagnosis": diagnosis})])


def reasons(agent: AgentClient, target: str, computed: Plan) -> dict[str, str]:
    """Return the reasons of the silent insights of a plan, whose results are in ``target``."""
    fragment = Whole(
        id="silent",
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", target),
        plan=computed,
    )
    monitor = SilenceMonitor(agent)
    monitor.check(fragment, system_clock() + 1)
    return dict(monitor.reasons)


@pytest.fixture
def metric(agent: AgentClient) -> str:
    """Store two points of a new metric, with two diagnoses; return the name of the metric."""
    name = f"disease.{uuid.uuid4().hex[:6]}"
    put(agent, name, "a", 1.0, "flu")
    put(agent, name, "b", 5.0, "cold")
    return name


def test_condition_that_no_point_satisfies_is_named_with_the_values_seen(
    agent: AgentClient, target: str, metric: str
) -> None:
    source = Source(metric, predicate=And(Comparison(">", Value(), Literal(0.0)), MALARIA))
    found = reasons(agent, target, plan({"w": source}, Measure("COUNT", "w")))
    assert found == {
        "i": f"2 points of `{metric}` came in within 10 seconds, none satisfies "
        'diagnosis == "malaria"; values seen: cold, flu'
    }


def test_type_of_the_values_seen_is_named_where_it_differs(
    agent: AgentClient, target: str, metric: str
) -> None:
    put(agent, metric, "c", 1.0, "500")
    several = Source(metric, ("c",), Comparison("==", Attribute("diagnosis"), Literal(500.0)))
    found = reasons(agent, target, plan({"w": several}, Measure("COUNT", "w")))
    assert found["i"].endswith("diagnosis == 500; values seen: 500, cold, flu (texts)")


def test_silent_insight_is_logged_once(agent: AgentClient, target: str, metric: str) -> None:
    source = Source(metric, predicate=HIGH)
    fragment = Whole(
        id="silent",
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", target),
        plan=plan({"w": source}, Measure("COUNT", "w")),
    )
    monitor = SilenceMonitor(agent)
    with capture_logs() as logs:
        for _ in range(2):
            monitor._next_check = 0.0
            monitor.check(fragment, system_clock() + 1)
    (logged,) = [each for each in logs if each["event"] == "insight_silent"]
    assert (logged["insight"], logged["reason"]) == ("i", monitor.reasons["i"])


def test_condition_on_values_is_named_with_their_range(
    agent: AgentClient, target: str, metric: str
) -> None:
    source = Source(metric, predicate=HIGH)
    found = reasons(agent, target, plan({"w": source}, Measure("COUNT", "w")))
    assert found["i"].endswith("none satisfies value > 100; values seen: 1 to 5")


def test_insight_at_points_is_not_silent_between_points_that_come_each_few_seconds(
    agent: AgentClient, target: str, metric: str
) -> None:
    found = plan({"w": Source(metric, predicate=HIGH)}, Measure("COUNT", "w"))
    now = system_clock()
    for since, expected in ((now - 5000, set()), (now - 60_000, {"i"})):
        insight = msgspec.structs.replace(
            found.insights[0], every_ms=200, each_point=True, since=since
        )
        window = Window(
            id="w", pane="w-pane", size_ms=10_000, every_ms=200,
            contents=("points",), each_point=True,
        )  # fmt: skip
        pane = msgspec.structs.replace(found.panes[0], width_ms=200, contents=("points",))
        at_points = Plan(insights=(insight,), windows=(window,), panes=(pane,))
        assert set(reasons(agent, target, at_points)) == expected


def test_conditions_that_no_point_satisfies_together_are_named(
    agent: AgentClient, target: str, metric: str
) -> None:
    flu = Comparison("==", Attribute("diagnosis"), Literal("flu"))
    source = Source(metric, predicate=And(flu, Comparison(">", Value(), Literal(2.0))))
    found = reasons(agent, target, plan({"w": source}, Measure("COUNT", "w")))
    assert found["i"].endswith('none satisfies all of: diagnosis == "flu" AND value > 2')


def test_entities_and_metrics_without_points_are_named(
    agent: AgentClient, target: str, metric: str
) -> None:
    source = Source(metric, entities=("c",))
    found = reasons(agent, target, plan({"w": source}, Measure("COUNT", "w")))
    assert found["i"].endswith("none belongs to c; entities seen: a, b")
    found = reasons(agent, target, plan({"w": Source("no.metric")}, Measure("COUNT", "w")))
    assert found["i"] == "no point of `no.metric` came in within 10 seconds"


def test_condition_on_results_and_on_keys_is_named(
    agent: AgentClient, target: str, metric: str
) -> None:
    average = Measure("AVG", "w")
    high = Comparison(">", average, Literal(100.0))
    found = reasons(
        agent, target, plan({"w": Source(metric)}, average, ("diagnosis",), condition=high)
    )
    assert found["i"].endswith(
        f"its condition was true for none of its values: AVG({metric}) > 100"
    )
    found = reasons(
        agent, target, plan({"w": Source(metric)}, average, ("diagnosis",), condition=MALARIA)
    )
    assert found["i"].endswith('none satisfies diagnosis == "malaria"; values seen: cold, flu')


def test_operands_without_common_keys_are_named(
    agent: AgentClient, target: str, metric: str
) -> None:
    other = f"{metric}.other"
    put(agent, other, "c", 1.0, "typhus")
    ratio = Arithmetic("/", Measure("SUM", "w"), Measure("SUM", "v"))
    found = reasons(
        agent, target, plan({"w": Source(metric), "v": Source(other)}, ratio, ("diagnosis",))
    )
    assert found["i"].endswith("but no value of diagnosis has points for all operands")


def test_insight_with_a_result_in_its_last_intervals_is_not_silent(
    agent: AgentClient, target: str, metric: str
) -> None:
    row = {"insight": "i", "key": "{}", "value": 1.0, "revision": 0, "computed_at": 0}
    recent, old = system_clock() - 1000, system_clock() - 60_000
    computed = plan({"w": Source(metric)}, Measure("SUM", "w"))
    agent.append(target, pa.Table.from_pylist([{**row, "ts": old}], RESULT_ROWS))
    assert reasons(agent, target, computed).keys() == {"i"}
    agent.append(target, pa.Table.from_pylist([{**row, "ts": recent}], RESULT_ROWS))
    assert reasons(agent, target, computed) == {}
