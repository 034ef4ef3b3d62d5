"""The clients with a real agent: the methods that no other test calls."""

import pytest

from mistbow.client import AgentClient, AsyncAgentClient, Point
from mistbow.client.agent_model import Aggregated, FogNode
from mistbow.client.operation_model import Restriction, Restrictions, SeriesFilter
from mistbow.client.record_model import AppSchema, Record, RecordValue, Route, RoutingTable
from mistbow.errors import InvalidRequestError, NotFoundError
from tests.storage_agent.conftest import ManualClock


def fill(client: AgentClient, now: int) -> None:
    points = [
        Point("cpu", entity, now - 2000 + step * 1000, float(step), units="percent")
        for entity in ("a", "b")
        for step in range(3)
    ]
    client.put(points)


def test_client_aggregates_lists_and_deletes_points(
    client: AgentClient, clock: ManualClock
) -> None:
    fill(client, clock.now)
    assert client.query("avg", "cpu") == Aggregated(2.0, {})
    assert client.query("sum", "cpu", "a", latest=False).value == 3.0
    assert client.query("max", "none").value is None
    [series] = client.list_series(entity="a", fields=["units"])
    assert (series["metricID"], series["units"]) == ("cpu", "percent")
    assert client.nodes() == [FogNode("n1", True)]
    table = client.get_table("cpu", start=clock.now - 1000)
    assert table.num_rows == 4
    assert set(table.to_pandas()["entity"]) == {"a", "b"}
    client.delete("cpu", "a", start=clock.now)
    assert client.get_table("cpu", latest=False).num_rows == 5
    client.delete(entity="b")
    assert client.sql("SELECT DISTINCT entity FROM historical").to_pylist() == [{"entity": "a"}]


def test_client_stores_and_reads_records(client: AgentClient) -> None:
    records = client.records
    records.put("analytics", [Record("load", {"mean": 0.5}, 1), Record("load", None, 2)])
    assert records.get("analytics").values == {"load": [RecordValue(2, None)]}
    past = records.get("analytics", "load", start=0, end=1)
    assert past.values == {"load": [RecordValue(1, {"mean": 0.5})]}
    room = AppSchema("room", {"type": "object", "required": ["floor"]}, ("floor",))
    records.put_schema(room)
    assert records.schemas() == [room]
    rooms = [Record(f"r{floor}", {"floor": floor}, 1, "room") for floor in range(3)]
    records.put("application", rooms)
    with pytest.raises(InvalidRequestError, match="floor"):
        records.put("application", [Record("r9", {}, 1, "room")])
    assert list(records.find("room", {"floor": {"gte": 1}}).values) == ["r1", "r2"]
    assert list(records.get("application", from_key="r1", limit=1).values) == ["r1"]
    records.delete("application", "r1")
    assert list(records.get("application").values) == ["r0", "r2"]
    records.delete_schema("room")
    with pytest.raises(NotFoundError):
        records.delete_schema("room")
    records.put_routes([RoutingTable([Route("10.0.0.0/8", "10.0.0.1")], "edge")])
    assert records.routes("edge").tables["edge"].routes == [Route("10.0.0.0/8", "10.0.0.1")]


async def test_async_client_calls_the_same_methods(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    fill(client, clock.now)
    other = AsyncAgentClient(url)
    assert (await other.query("sum", "cpu")).value == 4.0
    assert (await other.sql("SELECT count(*) AS n FROM latest")).to_pylist() == [{"n": 2}]
    assert len((await other.rows("raw", limit=4)).rows) == 4
    seen = []
    async for event in other.events("raw", 0):
        seen.append(event.row["entity"])
        if len(seen) == 6:
            break
    assert seen == ["a", "a", "a", "b", "b", "b"]
    await other.records.put("analytics", [Record("k", 1, 1)])
    assert (await other.records.get("analytics", "k")).values == {"k": [RecordValue(1, 1)]}
    operations = other.operations
    assert (await operations.change_config(retention_ms=None)).retention_ms is None
    assert await operations.config() == client.operations.config()
    assert (await operations.cluster()).nodes[0].online
    rule = Restriction(match=SeriesFilter(group=("g",)), stay_in=("north",))
    assert (await operations.restrict([rule])).declared == (rule,)
    assert await operations.restrictions() == Restrictions((), (rule,))
    assert (await operations.replication()).copies == ()
    with pytest.raises(NotFoundError):
        await operations.withdraw_copy("none")
    with pytest.raises(InvalidRequestError):
        await operations.request_copy("")
    await other.close()
