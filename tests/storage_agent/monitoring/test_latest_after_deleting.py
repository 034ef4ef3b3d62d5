"""The latest value of a series of which some points are deleted."""

from mistbow.client.agent import AgentClient, Point
from tests.storage_agent.conftest import HeldClock


def test_a_point_that_waits_is_still_the_latest(client: AgentClient, clock: HeldClock) -> None:
    now = clock.now
    for ts in (now + 60_000, now - 100, now):
        client.put([Point("m", "e", ts, float(ts - now))])
    client.delete("m", start=now, end=now)
    [node] = client.get("m")
    assert [value.value for value in node.data[0].values] == [60_000.0]
