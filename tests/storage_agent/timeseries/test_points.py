"""The encoding of points while long work takes turns on the event loop."""

import asyncio
from itertools import count
from typing import Any

import pytest

from mistbow.client.agent_model import Point
from mistbow.runtime import slices
from mistbow.runtime.slices import Slices
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.points import PointEncoder


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
