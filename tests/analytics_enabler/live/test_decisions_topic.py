"""The decisions that new and resuming clients of live events receive."""

from typing import Any, cast

from analytics.insight_models import Decision
from analytics_enabler.decision_log import DecisionLog
from analytics_enabler.live.topics import DecisionsTopic

NOW = 1_795_278_275_000


class FixedDecisions:
    """A log with one decision at each of several times (ms)."""

    def __init__(self, *times: int) -> None:
        self.times = [*times]

    def newest(self, _limit: int) -> list[Decision]:
        """Return all decisions."""
        return [
            Decision(at=at, kind="worker_dead", subject="w", what=f"at {at}", why="", by="")
            for at in self.times
        ]


def times(events: Any) -> list[int]:
    return [data["at"] for name, data in events if name == "decision"]


async def test_resuming_client_receives_decisions_from_before_its_last_event() -> None:
    log = FixedDecisions(NOW - 60_000, NOW - 900)
    topic = DecisionsTopic(cast(DecisionLog, log))
    assert await topic.poll() == []
    # The client has seen a result at NOW before it would have seen the newer decision.
    assert times(topic.current(NOW)) == [NOW - 900]
    log.times.append(NOW + 100)
    assert times(await topic.poll()) == [NOW + 100]
    assert times(topic.current(None)) == [NOW - 60_000, NOW - 900, NOW + 100]
