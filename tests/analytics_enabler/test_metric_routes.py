"""The route that searches metrics: the attributes in an answer without metrics."""

from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI

from analytics_enabler.api.metrics import metrics_router
from analytics_enabler.attributes import RecentAttributes
from mistbow.auth.callers import Caller, on_behalf_of
from mistbow.client.agent_model import NodeData, Series, SeriesPoint
from tests.analytics_enabler.support import AgentWithPoints

ATTRIBUTES = ['{"region": "west", "entityID": "bus-1"}', '{"entityID": "bus-2", "line": 7}']
POINTS = pa.table({"metric": ["delay", "delay"], "attributes": ATTRIBUTES})


class Catalogue:
    """The series of the two buses."""

    async def nodes(self) -> list[NodeData]:
        series = [Series("delay", f"bus-{each}", [SeriesPoint(7, 1.0)]) for each in (1, 2)]
        return [NodeData("n1", series)]


async def search(**parameters: str) -> dict[str, Any]:
    site = SimpleNamespace(name="edge", reachable=True)
    view: Any = SimpleNamespace(fabric=SimpleNamespace(sites=[site]), site_of_node={"n1": "edge"})
    agent: Any = AgentWithPoints(POINTS)
    catalogue: Any = Catalogue()
    app = FastAPI()
    app.include_router(metrics_router(catalogue, RecentAttributes(agent, view), view))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/api/metrics", params=parameters)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


@pytest.mark.parametrize("parameters", [{"search": "district"}, {"label": "district=west"}])
async def test_search_without_a_metric_lists_the_attributes(parameters: dict[str, str]) -> None:
    found = await search(**parameters)
    assert (found["total"], found["attributes"]) == (0, ["entityID", "line", "region"])


@pytest.mark.parametrize("parameters", [{"search": "region"}, {"metric": "none"}, {}])
async def test_other_answers_list_no_attributes(parameters: dict[str, str]) -> None:
    assert (await search(**parameters))["attributes"] == []


async def test_token_for_some_entities_sees_no_attributes_of_others() -> None:
    with on_behalf_of(Caller("bus-1", frozenset(["read"]), entity_prefix="bus-1")):
        found = await search(search="district")
    assert (found["total"], found["attributes"]) == (0, [])
