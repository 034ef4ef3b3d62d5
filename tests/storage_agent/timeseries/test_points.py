"""The encoding of points while long work takes turns on the event loop."""

import asyncio
from itertools import count
from typing import Any

import httpx
import pytest

from mistbow.client.agent_model import Point
from mistbow.errors import TooLargeError
from mistbow.runtime import slices
from mistbow.runtime.slices import Slices
from storage_agent.series import series_of
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.points import PointEncoder
from tests.storage_agent.conftest import ManualClock
from tests.support.agents import running_agent


class SecondClock:
    """A clock (s) that moves by a second whenever it is read, so that each slice is used up."""

    def __init__(self) -> None:
        self.perf_counter = count().__next__


async def test_encoding_does_not_wait_for_the_turns_of_long_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "time", SecondClock())
    turns = 0

    async def read() -> None:
        nonlocal turns
        own = Slices()
        while True:
            await own.pause()
            turns += 1

    encoder = PointEncoder(AgentSettings(), Catalogue())
    reads = [asyncio.create_task(read()) for _ in range(50)]
    await asyncio.sleep(0)
    encoded = await encoder.encode_in_slices([Point("m", f"e{n}", n, 1.0) for n in range(2000)])
    for each in reads:
        each.cancel()
    assert len(encoded.series) == 2000
    assert 0 < turns <= 10


async def test_encodings_of_concurrent_bodies_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "time", SecondClock())
    encode = PointEncoder._encode_columns
    begun = 0

    def encode_columns(*arguments: Any) -> Any:
        nonlocal begun
        begun += 1
        return encode(*arguments)

    encoder = PointEncoder(AgentSettings(), Catalogue())
    points = [Point("m", f"e{n}", n, 1.0) for n in range(2000)]
    bodies = [asyncio.create_task(encoder.encode_in_slices(points)) for _ in range(50)]
    await asyncio.sleep(0)
    monkeypatch.setattr(PointEncoder, "_encode_columns", encode_columns)
    most = 0
    while not all(body.done() for body in bodies):
        before = begun
        await asyncio.sleep(0)
        most = max(most, begun - before)
    assert begun == 50 * 3
    assert most == 1


async def test_new_series_beyond_the_limit_are_refused() -> None:
    catalogue = Catalogue()
    encoder = PointEncoder(AgentSettings(), catalogue, max_series=10)
    known = [Point("m", f"e{n}", 1, 1.0) for n in range(9)]
    for series in (await encoder.encode_in_slices(known)).series:
        catalogue.describe(series_of(series), series)
    changed = [Point("m", f"e{n}", 1, 1.0, units="s") for n in range(9)]
    assert len((await encoder.encode_in_slices(changed)).series) == 9
    one, two = Point("m", "new", 1, 1.0), Point("m", "newer", 1, 1.0)
    assert len((await encoder.encode_in_slices([*changed, one])).series) == 10
    with pytest.raises(TooLargeError, match="9 series, the body adds 2, and at most 10"):
        await encoder.encode_in_slices([*changed, one, two])
    spooled = await encoder.encode_in_slices([one, two], is_acknowledged=True)
    assert len(spooled.series) == 2


def test_body_with_new_series_beyond_the_setting_is_answered_413(
    settings: AgentSettings, clock: ManualClock
) -> None:
    def put(*entities: str) -> httpx.Response:
        point = {"metricID": "m", "val": 1, "timestamp": clock.now}
        body = {"monitoring": [{**point, "entityID": entity} for entity in entities]}
        return httpx.post(f"{url}/put", json=body, timeout=30)

    with running_agent(settings.model_copy(update={"max_series": 2}), clock) as url:
        assert put("a", "b").status_code == 200
        refused = put("a", "c")
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
        assert "MISTBOW_MAX_SERIES" in refused.json()["error"]["hint"]
        assert put("b", "a").status_code == 200
