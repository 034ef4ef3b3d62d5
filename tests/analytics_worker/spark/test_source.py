"""The source of points while no tick is due."""

from types import SimpleNamespace

import pytest

from analytics_worker.spark import source
from analytics_worker.spark.source import SourceOptions, StreamReader
from mistbow.streams.models import Offset

PROMISE = 10_000


class IdleAgent:
    """An agent with a stream without rows; ``frontier``: its frontier (ms)."""

    def __init__(self, frontier: int) -> None:
        self.frontier = frontier
        self.requests = 0

    def offset(self, stream: str, start: int, rows: int) -> Offset:
        del stream, rows
        self.requests += 1
        return Offset(next=start, frontier=self.frontier, head=start)


@pytest.mark.parametrize(("early_ms", "paused_s"), [(20, 0.02), (450, 0.45), (5000, 0.5)])
def test_source_pauses_until_the_promised_tick_but_not_for_long(
    early_ms: int, paused_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, pauses = IdleAgent(PROMISE - early_ms), list[float]()
    monkeypatch.setattr(source, "agent_client", lambda *_: agent)
    monkeypatch.setattr(source, "time", SimpleNamespace(sleep=pauses.append))
    options = {"url": "http://127.0.0.1:1", "stream": "raw", "panes": "[]"}
    reader = StreamReader(SourceOptions.parse(options))
    start = {"next": 5, "frontier": 1000, "promise": PROMISE, "closed": 9000}
    assert reader.latestOffset(start, None) == start
    assert (pauses, agent.requests) == ([paused_s], 2)
