"""Reads with selections, compared with a simple filter, and the skipping of many segments."""

from itertools import count

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mistbow.client.agent import AgentClient
from storage_agent.streams import subscription

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False)])
NAMES = (f"s{number}" for number in count())

times = st.integers(0, 30)
bounds = st.none() | times


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "_SCAN_ENTRIES", 3)
    monkeypatch.setattr(subscription, "_CHUNK_SEGMENTS", 2)


@given(
    segments=st.lists(st.lists(times, min_size=1, max_size=3), max_size=12),
    asked=st.lists(st.tuples(bounds, bounds, times, bounds), min_size=1, max_size=6),
)
@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_selection_by_time_equals_a_filter(
    client: AgentClient,
    segments: list[list[int]],
    asked: list[tuple[int | None, int | None, int, int | None]],
) -> None:
    name = next(NAMES)
    client.create_stream(name, SCHEMA)
    for segment in segments:
        client.append(name, pa.record_batch([pa.array(segment, pa.int64())], schema=SCHEMA))
    stored = [ts for segment in segments for ts in segment]
    for least, most, start, end in asked:
        start = min(start, len(stored))
        answer = client.read(name, start, end, min_ts=least, max_ts=most)
        assert answer.table["ts"].to_pylist() == [
            ts
            for ts in stored[start : None if end is None else max(start, end)]
            if (least is None or least <= ts) and (most is None or ts <= most)
        ]
        stop = len(stored) if end is None else min(end, len(stored))
        assert answer.position.next == max(start, stop)
