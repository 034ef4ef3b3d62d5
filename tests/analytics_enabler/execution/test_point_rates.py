"""The rates and the present entities of the points that an agent stores."""

import pytest

from analytics_enabler.execution.point_rates import SAMPLE_ROWS, PointRates, sampled_entities
from mistbow.client.agent import AgentClient, AsyncAgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock


def points(metric: str, entities: list[str], number: int) -> list[Point]:
    """Return points of some entities in turn, which are on time."""
    now = system_clock()
    return [
        Point(metric=metric, entity=entities[each % len(entities)], ts=now - each % 500, value=1.0)
        for each in range(number)
    ]


async def test_rates_have_the_entities_of_the_last_points(
    agent: AgentClient, agent_url: str
) -> None:
    agent.put(points("heat", [f"old{number}" for number in range(50)], SAMPLE_ROWS))
    present = [f"bus{number}" for number in range(20)]
    agent.put(points("heat", present, 3 * SAMPLE_ROWS // 4))
    # Each of these has one point in the sample: there may be more of them.
    agent.put(points("rain", [f"drop{number}" for number in range(500)], SAMPLE_ROWS // 4))
    site = agent.fabric().site
    client = AsyncAgentClient(agent_url)
    try:
        rates = await PointRates(client).metric_rates([site])
    finally:
        await client.close()
    heat, rain = rates[site, "heat"], rates[site, "rain"]
    assert (heat.entities, rain.entities) == (frozenset(present), None)
    assert heat.points_per_s == pytest.approx(3 * rain.points_per_s)
    assert heat.points_per_s + rain.points_per_s == pytest.approx(2 * SAMPLE_ROWS / 60)


def test_small_sample_of_many_entities_is_not_whole() -> None:
    assert sampled_entities({f"a{number}": 1 + number % 2 for number in range(10)}) is None
    # One of many that has just begun or ended.
    assert sampled_entities({"new": 1, **dict.fromkeys("abcdefgh", 9)}) == {"new", *"abcdefgh"}
