"""Corrections between the two decisions about a removed site, over streams in memory."""

import uuid
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from structlog.testing import capture_logs

from analytics_worker.evaluate.insight_values import INSIGHT_VALUES
from analytics_worker.evaluate.results import as_results
from analytics_worker.late_data.corrector import Corrector
from analytics_worker.merge.decisions import (
    Decision,
    Forgotten,
    Late,
    LateSpan,
    Left,
    SiteDecision,
    row_of,
)
from analytics_worker.merge.site_gaps import NEVER
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.streams.results import current_results
from mistbow.streams.schemas import EVENTS
from tests.analytics_worker.late_data.corrections import merge

MERGE = merge("provisional")


def results(value: float, *ticks: int) -> pa.Table:
    """Return results of the insight ``i`` at ticks (ms)."""
    rows = [{"insight": "i", "key": "{}", "ts": tick, "value": value} for tick in ticks]
    return as_results(pa.Table.from_pylist(rows, INSIGHT_VALUES))


class MergeStreams:
    """An agent in memory with the decisions and the results of a merge, and with all panes."""

    def __init__(self) -> None:
        self.url = f"http://provisional-{uuid.uuid4()}"
        self.decisions: list[SiteDecision] = []
        self.results = results(7.0, 2000, 3000)
        self.position = 0

    def decide(self, ts: int, site: str, decision: Decision) -> None:
        self.decisions.append(SiteDecision(ts, site, decision))

    def at(self, site: str) -> "MergeStreams":
        del site
        return self

    def info(self, stream: str) -> SimpleNamespace:
        attributes = {"begin": 0} if stream.startswith("panes/") else {}
        return SimpleNamespace(attributes=attributes, first=0, frontier=10_000)

    def seek(self, stream: str, time: int) -> int:
        del stream, time
        return 0

    def read(self, stream: str, start: int, **_: Any) -> SimpleNamespace:
        if stream == MERGE.target.stream:
            return SimpleNamespace(table=self.results)
        rows = [row_of(each) for each in self.decisions[start:]]
        position = SimpleNamespace(next=len(self.decisions))
        return SimpleNamespace(table=pa.Table.from_batches(rows, EVENTS), position=position)

    def append(self, stream: str, rows: pa.Table, *, epoch: int) -> None:
        del stream, epoch
        self.results = pa.concat_tables([self.results, rows])

    def advance(self, stream: str, epoch: int, *, attributes: dict[str, Any]) -> None:
        del epoch
        if stream == MERGE.target.stream:
            self.position = attributes["decided"]

    def values(self) -> dict[int, float]:
        """Return the current results: tick (ms) -> value."""
        return {row["ts"]: row["value"] for row in current_results(self.results).to_pylist()}


class SummingLibrary:
    """A streaming library whose results have the value 9 at the tick 3000 ms."""

    def recompute_from_panes(self, *_: Any) -> pa.Table:
        return results(9.0, 3000)


def test_corrections_wait_until_the_results_with_points_of_a_removed_site_are_known() -> None:
    streams = MergeStreams()
    late = Late((LateSpan("p", first=3000, last=3000, due=4000),))
    streams.decide(3000, "n1", late)
    streams.decide(2000, "far", Forgotten(after=2000, uncertain=((2000, NEVER),)))
    corrector = Corrector(cast("StreamingLibrary", SummingLibrary()), cast("AgentClient", streams))
    corrector.begin(MERGE, epoch=1, decisions_epoch=2)
    with capture_logs() as logs:
        for _ in range(2):
            assert not corrector.step(5000)
            assert corrector.ticks_due == {"i": 1}
            assert (streams.position, corrector.corrected_until) == (0, 2000)
    [event] = logs
    assert (event["event"], event["insights"]) == ("correction_waits", ["i"])
    assert "far" in event["reason"]
    streams.decide(2000, "far", Left())
    streams.decide(2000, "far", Forgotten(after=2000))
    assert corrector.step(5000)
    assert streams.values() == {2000: 7.0, 3000: 9.0}
    assert streams.position == 4
    assert not corrector.step(5000)
    assert corrector.ticks_due == {}
