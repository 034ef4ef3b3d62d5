"""The monitoring agent: its buffer, its retries, and its end."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress

import msgspec
import pytest

from mistbow.client import Point
from mistbow.errors import (
    ConflictError,
    FencedError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    SlowRequestError,
    StorageFullError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from monitoring_agent.agent import MonitoringAgent
from monitoring_agent.buffer import Buffer
from tests.support.conditions import aeventually


def points(*values):
    return [Point(metric="m", entity="e", value=value, ts=0) for value in values]


def drain(buffer):
    values = []
    while batch := buffer.oldest():
        values += [point.value for point in batch.points]
        buffer.remove(batch)
    return values


def test_buffer_returns_batches_in_their_order():
    buffer = Buffer(10)
    assert buffer.add(points(1, 2)) == 0
    assert buffer.add(points(3)) == 0
    assert len(buffer) == 3
    assert drain(buffer) == [1, 2, 3]
    assert len(buffer) == 0


def test_buffer_drops_the_oldest_and_counts_them():
    buffer = Buffer(3)
    buffer.add(points(1, 2))
    assert buffer.add(points(3, 4)) == 2
    assert drain(buffer) == [3, 4]


def test_buffer_cuts_points_beyond_its_limit():
    buffer = Buffer(2)
    assert buffer.add(points(1, 2, 3, 4, 5)) == 4
    assert drain(buffer) == [5]


def test_remove_of_a_dropped_batch_removes_no_other():
    buffer = Buffer(2)
    buffer.add(points(1, 2))
    under_way = buffer.oldest()
    buffer.add(points(3))
    buffer.remove(under_way)
    assert drain(buffer) == [3]


def test_split_batch_is_replaced_by_its_halves_in_order():
    buffer = Buffer(10)
    buffer.add(points(1, 2, 3))
    buffer.add(points(4))
    batch = buffer.oldest()
    buffer.split(batch)
    assert len(buffer) == 4
    assert [point.value for point in buffer.oldest().points] == [1]
    assert buffer.oldest().key != batch.key
    buffer.split(batch)
    assert drain(buffer) == [1, 2, 3, 4]


class Storage:
    """A storage agent in memory, which raises ``error`` while ``away``, and rejects one value.

    ``refuses``: the rejected value, or None.
    """

    def __init__(self, *, away=False, refuses=None, error=UnavailableError):
        self.away = away
        self.error = error
        self.refuses = refuses
        self.stored = {}
        self.last = None
        self.attempts = []

    async def put(self, points, *, idempotency_key):
        self.attempts.append(idempotency_key)
        if self.away:
            raise self.error("away")
        (*_, self.last) = msgspec.json.decode(msgspec.json.encode(points), type=list[Point])
        if any(point.value == self.refuses for point in points):
            raise InvalidRequestError("no")
        self.stored[idempotency_key] = [point.value for point in points]

    async def read_requests(self):
        if self.away:
            raise UnavailableError("away")
        return {}

    def values(self):
        return [value for values in self.stored.values() for value in values]


class Counting:
    """A collector of the values 1, 2, 3, …, which fails at ``fails_at``."""

    name = "counting"

    def __init__(self, fails_at=None):
        self.count = 0
        self.fails_at = fails_at

    def collect(self, now_ms):
        self.count += 1
        if self.count == self.fails_at:
            raise RuntimeError("broken sensor")
        return points(self.count)


def agent_of(collector, storage, buffer, *others):
    return MonitoringAgent(
        [*others, collector],
        storage,
        buffer,
        AdaptiveSampler(1, {}),
        storage.read_requests,
        interval_ms=1,
        clock=lambda: 0,
    )


async def run(collector, storage, until):
    agent = agent_of(collector, storage, Buffer(1000))
    running = asyncio.create_task(agent.run())
    try:
        await until(agent)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(
    "error",
    [
        ConflictError,
        FencedError,
        MistbowError,
        NotFoundError,
        SlowRequestError,
        StorageFullError,
        TooManyRequestsError,
        UnauthorizedError,
        UnavailableError,
    ],
)
async def test_agent_sends_buffered_points_in_order_with_the_same_key_after_an_error(error):
    collector, storage = Counting(), Storage(away=True, error=error)

    async def until(agent):
        async def tried_twice():
            return len(storage.attempts) >= 2 and collector.count >= 5

        await aeventually(tried_twice)
        assert "away" in agent.waits_for
        storage.away = False

        async def drained():
            return len(storage.values()) >= 5

        await aeventually(drained)
        assert agent.waits_for is None

    await run(collector, storage, until)
    assert storage.values() == list(range(1, len(storage.values()) + 1))
    assert storage.attempts[0] == storage.attempts[1] == next(iter(storage.stored))


async def test_agent_continues_after_refused_points_and_failed_collections():
    collector, storage = Counting(fails_at=2), Storage(refuses=3)

    async def until(agent):
        async def went_on():
            return len(storage.values()) >= 3

        await aeventually(went_on)

    await run(collector, storage, until)
    assert storage.values()[:3] == [1, 4, 5]


class Hanging:
    """A collector that waits for an event."""

    name = "hanging"

    def __init__(self, ends):
        self._ends = ends

    def collect(self, now_ms):
        self._ends.wait(60)
        return []


async def test_collectors_that_hang_delay_no_other_collector():
    ends, counting = threading.Event(), Counting()
    agent = agent_of(counting, Storage(), Buffer(1000), *(Hanging(ends) for _ in range(40)))
    running = asyncio.create_task(agent.run())

    async def went_on():
        return counting.count >= 3

    try:
        await aeventually(went_on)
    finally:
        ends.set()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize("bad", [0, 1, 777, 999])
async def test_agent_drops_only_the_invalid_point_of_a_batch(bad):
    storage, buffer = Storage(refuses=bad), Buffer(5000)
    buffer.add(points(*range(1000)))
    await drain_by_agent(storage, buffer)
    assert storage.values() == [value for value in range(1000) if value != bad]


async def test_agent_sends_few_requests_for_a_batch_without_valid_points():
    storage, buffer = Storage(refuses=7), Buffer(5000)
    buffer.add(points(*[7] * 1000))
    await drain_by_agent(storage, buffer)
    assert storage.values() == []
    assert len(storage.attempts) < 100


async def drain_by_agent(storage, buffer):
    agent = agent_of(Silent(), storage, buffer)
    running = asyncio.create_task(agent.run())

    async def drained():
        return len(buffer) == 0

    await aeventually(drained)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


class Silent:
    """A collector without points."""

    name = "silent"

    def collect(self, now_ms):
        return []


class Odd:
    """A collector of a point with text that UTF-8 cannot encode."""

    name = "odd"

    def collect(self, now_ms):
        odd = "caf\udce9"
        yield Point(metric="m", entity=odd, ts=0, value=1, labels={odd: odd})


async def test_agent_replaces_text_that_is_no_utf8():
    storage = Storage()

    async def until(agent):
        async def sent():
            return storage.last

        await aeventually(sent)

    await run(Odd(), storage, until)
    assert (storage.last.entity, storage.last.labels) == ("caf?", {"caf?": "caf?"})


async def test_agent_refuses_points_that_cannot_be_encoded_and_continues():
    storage = Storage()
    buffer = Buffer(10)
    buffer.add([Point(metric="\ud800", entity="e", value=1, ts=0)])
    agent = agent_of(Counting(), storage, buffer)
    running = asyncio.create_task(agent.run())

    async def went_on():
        return len(storage.values()) >= 2

    await aeventually(went_on)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert storage.values()[:2] == [1, 2]


BREAKS = """
import monitoring_agent.main as service
from monitoring_agent.settings import MonitorSettings

class Broken(service.Buffer):
    def oldest(self):
        raise KeyError("broken buffer")

service.Buffer = Broken
service.main(MonitorSettings(monitor_port=0))
"""


@pytest.mark.usefixtures("processes")
def test_process_ends_when_the_agent_breaks(tmp_path):
    env = {**os.environ, "MISTBOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", BREAKS], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "agent_broke" in done.stderr
    assert "broken buffer" in done.stderr
