"""The monitoring agent's two sides: collectors fill the buffer, one sender empties it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from prometheus_client import Counter, Gauge

from mistbow.client.agent_model import Point
from mistbow.clock import Clock
from mistbow.errors import MistbowError, UnauthorizedError
from mistbow.monitoring.adapting import Adapting
from mistbow.monitoring.buffer import Batch, Buffer
from mistbow.monitoring.collector import Collector
from mistbow.monitoring.text import with_clean_text
from mistbow.sampling.adaptive import Asked
from mistbow.telemetry import get_logger

log = get_logger(__name__)

COLLECTED = Counter("mistbow_monitor_points_collected", "Points collected.", ["collector"])
FAILED = Counter("mistbow_monitor_collections_failed", "Collections that failed.", ["collector"])
SENT = Counter("mistbow_monitor_points_sent", "Points that the storage agent has acknowledged.")
DROPPED = Counter("mistbow_monitor_points_dropped", "Points dropped for want of room.")
REFUSED = Counter(
    "mistbow_monitor_points_refused",
    "Points that the storage agent refused, or that cannot be written as JSON.",
)
SPARED = Counter(
    "mistbow_monitor_points_spared", "Points not sent, since the value before them stands."
)
RESTED = Counter(
    "mistbow_monitor_collections_spared",
    "Collections left out, since all values stand.",
    ["collector"],
)
BUFFERED = Gauge("mistbow_monitor_points_buffered", "Points that wait for the storage agent.")

_LONGEST_PAUSE_S = 2.0
_FIRST_PAUSE_S = 0.1
_ASKED_EVERY_S = 1.0

AskedFor = Callable[[], Awaitable[Mapping[str, Asked]]]
"""Returns which metrics insights want to be sampled adaptively; raises ``MistbowError``."""


class Sink(Protocol):
    """The storage agent, as far as the monitoring agent needs it."""

    async def put(self, points: Sequence[Point], *, idempotency_key: str) -> object:
        """Store points; with a key that was stored before, do nothing."""
        ...


class MonitoringAgent:
    """Runs collectors each ``interval_ms`` and sends in order what they yield and is needed."""

    def __init__(
        self,
        collectors: Sequence[Collector],
        sink: Sink,
        buffer: Buffer,
        adapting: Adapting,
        asked_for: AskedFor,
        *,
        interval_ms: int,
        clock: Clock,
    ) -> None:
        self._collectors = collectors
        self._sink = sink
        self._buffer = buffer
        self._adapting = adapting
        self._asked_for = asked_for
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._filled = asyncio.Event()
        self.waits_for: str | None = "the first measurement"

    async def run(self) -> None:
        """Collect and send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for collector in self._collectors:
                tasks.create_task(self._collect_for_ever(collector))
            tasks.create_task(self._send_for_ever())
            tasks.create_task(self._ask_for_ever())

    async def _collect_for_ever(self, collector: Collector) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self.collect(collector)
            # Rounds that a slow collector missed are left out, so that none runs in a rush.
            late = max(0.0, loop.time() - due)
            due += self._interval_s * (1 + late // self._interval_s)
            await asyncio.sleep(due - loop.time())

    async def collect(self, collector: Collector) -> None:
        """Do one round of one collector; its failure is counted and logged, nothing more."""
        now = self._clock()
        if self._adapting.rests(collector.name, now):
            RESTED.labels(collector.name).inc()
            return
        try:
            points = await asyncio.to_thread(_measured, collector, now)
        except Exception as error:  # a collector may come from anywhere
            FAILED.labels(collector.name).inc()
            log.warning("collector failed", collector=collector.name, reason=str(error))
            return
        COLLECTED.labels(collector.name).inc(len(points))
        needed = self._adapting.sent(collector.name, points, now)
        SPARED.inc(len(points) - len(needed))
        DROPPED.inc(self._buffer.add(needed))
        BUFFERED.set(len(self._buffer))
        self._filled.set()

    async def _ask_for_ever(self) -> None:
        while True:
            try:
                self._adapting.ask(await self._asked_for())
            except MistbowError as error:
                # What was asked for last is asked for still.
                log.debug("not told what insights ask for", reason=error.message)
            await asyncio.sleep(_ASKED_EVERY_S)

    async def _send_for_ever(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            batch = self._buffer.oldest()
            if batch is None:
                self._filled.clear()
                await self._filled.wait()
            elif await self._send(batch):
                pause = _FIRST_PAUSE_S
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _send(self, batch: Batch) -> bool:
        try:
            await self._sink.put(batch.points, idempotency_key=batch.key)
        except MistbowError as error:
            if error.status >= 500 or isinstance(error, UnauthorizedError):
                self._wait_for(f"the storage agent: {error.message}")
                return False
            self._refuse(batch, error.message)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
            self._refuse(batch, f"cannot be written as JSON: {error}")
        else:
            SENT.inc(len(batch.points))
            self._wait_for(None)
        self._buffer.done(batch)
        BUFFERED.set(len(self._buffer))
        return True

    def _refuse(self, batch: Batch, reason: str) -> None:
        # Sent again, it would be refused again, and hold up all that comes after it.
        REFUSED.inc(len(batch.points))
        log.error("points refused", points=len(batch.points), reason=reason)

    def _wait_for(self, what: str | None) -> None:
        if what != self.waits_for:
            log.info("waiting" if what else "sending", reason=what)
        self.waits_for = what


def _measured(collector: Collector, now: int) -> list[Point]:
    return [with_clean_text(point) for point in collector.collect(now)]
