"""The latest value of a series after a deletion."""

from mistbow.client import AgentClient, Point
from tests.storage_agent.conftest import ManualClock


def test_future_point_remains_latest_after_deletion(
    client: AgentClient, clock: ManualClock
) -> None:
    now = clock.now
    for ts in (now + 60_000, now - 100, now):
        client.put([Point("m", "e", ts, float(ts - now))])
    client.delete("m", start=now, end=now)
    [node] = client.get("m")
    assert [value.value for value in node.data[0].values] == [60_000.0]
