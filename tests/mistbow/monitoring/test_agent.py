import asyncio
import os
import subprocess
import sys
from contextlib import suppress

import msgspec

from mistbow.client.agent_model import Point
from mistbow.errors import InvalidRequestError, UnavailableError
from mistbow.monitoring.adapting import Adapting
from mistbow.monitoring.agent import MonitoringAgent
from mistbow.monitoring.buffer import Buffer
from tests.support.waiting import aeventually


def points(*values):
    return [Point(metric="m", entity="e", value=value, ts=0) for value in values]


def drain(buffer):
    values = []
    while batch := buffer.oldest():
        values += [point.value for point in batch.points]
        buffer.done(batch)
    return values


def test_buffer_keeps_order():
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


def test_buffer_cuts_what_is_larger_than_itself():
    buffer = Buffer(2)
    assert buffer.add(points(1, 2, 3, 4, 5)) == 4
    assert drain(buffer) == [5]


def test_batch_that_had_to_go_while_under_way_takes_no_other_along():
    buffer = Buffer(2)
    buffer.add(points(1, 2))
    under_way = buffer.oldest()
    buffer.add(points(3))
    buffer.done(under_way)
    assert drain(buffer) == [3]


class Storage:
    """A storage agent that can be away, or refuse a value."""

    def __init__(self, *, away=False, refuses=None):
        self.away = away
        self.refuses = refuses
        self.stored = {}
        self.last = None
        self.attempts = []

    async def put(self, points, *, idempotency_key):
        self.attempts.append(idempotency_key)
        if self.away:
            raise UnavailableError("away")
        (*_, self.last) = msgspec.json.decode(msgspec.json.encode(points), type=list[Point])
        if any(point.value == self.refuses for point in points):
            raise InvalidRequestError("no")
        self.stored[idempotency_key] = [point.value for point in points]

    async def asked_for(self):
        if self.away:
            raise UnavailableError("away")
        return {}

    def values(self):
        return [value for values in self.stored.values() for value in values]


class Counting:
    """Yields 1, 2, 3, …; fails where told."""

    name = "counting"

    def __init__(self, fails_at=None):
        self.count = 0
        self.fails_at = fails_at

    def collect(self, now_ms):
        self.count += 1
        if self.count == self.fails_at:
            raise RuntimeError("broken sensor")
        return points(self.count)


def agent_of(collector, storage, buffer):
    return MonitoringAgent(
        [collector],
        storage,
        buffer,
        Adapting(1, {}),
        storage.asked_for,
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


async def test_what_came_while_the_storage_was_away_is_sent_in_order_with_the_same_key():
    collector, storage = Counting(), Storage(away=True)

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


async def test_refused_points_and_failing_collectors_hold_nothing_up():
    collector, storage = Counting(fails_at=2), Storage(refuses=3)

    async def until(agent):
        async def went_on():
            return len(storage.values()) >= 3

        await aeventually(went_on)

    await run(collector, storage, until)
    assert storage.values()[:3] == [1, 4, 5]


class Odd:
    """Yields a point with text that UTF-8 cannot carry."""

    name = "odd"

    def collect(self, now_ms):
        odd = "caf\udce9"
        yield Point(metric="m", entity=odd, ts=0, value=1, labels={odd: odd})


async def test_odd_text_is_replaced():
    storage = Storage()

    async def until(agent):
        async def sent():
            return storage.last

        await aeventually(sent)

    await run(Odd(), storage, until)
    assert (storage.last.entity, storage.last.labels) == ("caf?", {"caf?": "caf?"})


async def test_what_cannot_be_encoded_is_refused_and_holds_nothing_up():
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
import mistbow.monitoring.main as service
from mistbow.monitoring.settings import MonitorSettings

class Broken(service.Buffer):
    def oldest(self):
        raise KeyError("broken buffer")

service.Buffer = Broken
service.main(MonitorSettings(monitor_port=0))
"""


def test_the_process_ends_when_the_agent_breaks(tmp_path):
    env = {**os.environ, "MISTBOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", BREAKS], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "the agent broke" in done.stderr
    assert "broken buffer" in done.stderr
