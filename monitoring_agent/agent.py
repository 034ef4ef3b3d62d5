"""The monitoring agent: collectors fill a buffer, and one sender empties it."""

import asyncio
import functools
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec

from mistbow.client import Point
from mistbow.clock import Clock
from mistbow.errors import (
    ForbiddenError,
    InvalidRequestError,
    MistbowError,
    ReusedKeyError,
    TooLargeError,
    UnsupportedError,
)
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.sampling.adaptive import SamplingRequest
from mistbow.telemetry import get_logger
from monitoring_agent import metrics
from monitoring_agent.adaptive_sampling import AdaptiveSampler
from monitoring_agent.buffer import Batch, Buffer
from monitoring_agent.collectors.interface import Collector

log = get_logger(__name__)

_FIRST_RETRY_S = 0.1
_MAX_RETRY_S = 2.0
_REQUESTS_INTERVAL_S = 1.0

_FINAL_ERRORS = (InvalidRequestError, ForbiddenError, TooLargeError, UnsupportedError)
"""The errors that a repeated request would cause again; points that cause them are dropped.

After any other error, the batch is sent again.
"""

_ERRORS_OF_POINTS = (InvalidRequestError, TooLargeError)
"""The final errors that some points of a batch may cause, while the other points are valid."""

_MAX_REFUSALS = 32
"""The number of refusals in a row after which refused batches are dropped as a whole."""

ReadRequests = Callable[[], Awaitable[Mapping[str, SamplingRequest]]]
"""A function that returns metric -> the sampling request of insights; raises ``MistbowError``."""


class CollectionError(MistbowError):
    """The error that a collector failed.

    The cause can be any exception, since other packages can provide collectors.
    """

    code = "collection"


class Sink(Protocol):
    """The methods of the storage agent that the monitoring agent needs."""

    async def put(self, points: Sequence[Point], *, idempotency_key: str) -> object:
        """Store points; do nothing if points with the same key were stored before."""
        ...


class MonitoringAgent:
    """Runs each collector every ``interval_ms``, and sends the sampled points in order.

    Failed collections and failed requests to the storage agent are repeated; any other error ends
    ``run``. ``on_empty``: called when all points of the buffer have been sent.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        sink: Sink,
        buffer: Buffer,
        sampler: AdaptiveSampler,
        read_requests: ReadRequests,
        *,
        interval_ms: int,
        clock: Clock,
        on_empty: Callable[[], None] = lambda: None,
    ) -> None:
        self._collectors = collectors
        self._sink = sink
        self._buffer = buffer
        self._sampler = sampler
        self._read_requests = read_requests
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._on_empty = on_empty
        self._begin = time.monotonic()
        self._has_sent = False
        self._refusals = 0
        # A thread for each collector, so that sources that hang delay no other collector.
        self._threads = ThreadPoolExecutor(max(1, len(collectors)), "collector")
        self._sender = PeriodicTask(
            self._send_oldest,
            Schedule(
                "point_send",
                interval_s=math.inf,
                retry_s=_FIRST_RETRY_S,
                max_retry_s=_MAX_RETRY_S,
                survived=(MistbowError,),
            ),
        )

    @property
    def waits_for(self) -> str | None:
        """The reason why points do not reach the storage agent; None: points reach the agent."""
        if (error := self._sender.error) is not None:
            return f"the storage agent: {error}"
        return None if self._has_sent else "the first measurement"

    async def run(self) -> None:
        """Collect and send until cancelled."""
        requests = Schedule(
            "sampling_request", interval_s=_REQUESTS_INTERVAL_S, survived=(MistbowError,)
        )
        async with asyncio.TaskGroup() as tasks:
            for collector in self._collectors:
                tasks.create_task(self._collection(collector).run())
            tasks.create_task(self._sender.run())
            tasks.create_task(PeriodicTask(self._update_requests, requests).run())

    def _collection(self, collector: Collector) -> PeriodicTask:
        return PeriodicTask(
            functools.partial(self._collect_on_time, collector),
            Schedule(
                "collection",
                interval_s=self._interval_s,
                survived=(CollectionError,),
                fields={"collector": collector.name},
            ),
        )

    async def _collect_on_time(self, collector: Collector) -> float:
        await self.collect(collector)
        # At a fixed rate: rounds that a slow collector missed are left out.
        return self._interval_s - (time.monotonic() - self._begin) % self._interval_s

    async def collect(self, collector: Collector) -> None:
        """Run a collector once, and put the points to send into the buffer.

        Raises ``CollectionError`` if the collector fails.
        """
        now = self._clock()
        if self._sampler.skips(collector.name, now):
            metrics.SKIPPED_COLLECTIONS.labels(collector.name).inc()
            return
        try:
            loop = asyncio.get_running_loop()
            points = await loop.run_in_executor(self._threads, _collect, collector, now)
        except Exception as error:
            metrics.FAILED_COLLECTIONS.labels(collector.name).inc()
            raise CollectionError(str(error) or type(error).__name__) from error
        metrics.COLLECTED_POINTS.labels(collector.name).inc(len(points))
        sampled = self._sampler.sample(collector.name, points, now)
        metrics.SKIPPED_POINTS.inc(len(points) - len(sampled))
        metrics.DROPPED_POINTS.inc(self._buffer.add(sampled))
        metrics.BUFFERED_POINTS.set(len(self._buffer))
        self._sender.wake()

    async def _update_requests(self) -> None:
        # While the storage agent is away, the last requests stay in force.
        self._sampler.set_requests(await self._read_requests())

    async def _send_oldest(self) -> float:
        batch = self._buffer.oldest()
        if batch is None:
            self._on_empty()
            return math.inf
        if await self._send(batch):
            self._buffer.remove(batch)
        else:
            self._buffer.split(batch)
        metrics.BUFFERED_POINTS.set(len(self._buffer))
        return 0

    async def _send(self, batch: Batch) -> bool:
        """Send a batch; return whether the storage agent has stored it or finally refused it.

        A batch with a single invalid point is refused as a whole. Therefore, returns False if the
        halves of a refused batch must be sent. Raises ``MistbowError`` if the batch must be sent
        again.
        """
        try:
            await self._sink.put(batch.points, idempotency_key=batch.key)
        except ReusedKeyError:
            # An earlier attempt stored the batch; a later version encodes it in another way.
            log.info("batch_stored_before", points=len(batch.points))
            return True
        except _FINAL_ERRORS as error:
            reason, may_split = error.message, isinstance(error, _ERRORS_OF_POINTS)
        except (ValueError, TypeError, OverflowError, msgspec.MsgspecError) as error:
            reason, may_split = f"cannot be encoded as JSON: {error}", True
        else:
            metrics.SENT_POINTS.inc(len(batch.points))
            if not self._has_sent:
                log.info("monitor_ready", collectors=[each.name for each in self._collectors])
            self._has_sent = True
            self._refusals = 0
            return True
        self._refusals += 1
        if may_split and len(batch.points) > 1 and self._refusals <= _MAX_REFUSALS:
            return False
        _refuse(batch, reason)
        return True


def _refuse(batch: Batch, reason: str) -> None:
    # Sent again, the batch would be refused again, and delay all later ones.
    metrics.REFUSED_POINTS.inc(len(batch.points))
    log.error("points_refused", points=len(batch.points), reason=reason)


def _collect(collector: Collector, now: int) -> list[Point]:
    return [_with_valid_text(point) for point in collector.collect(now)]


def _with_valid_text(point: Point) -> Point:
    """Return a point with ``?`` for each character that UTF-8 cannot encode.

    psutil returns lone surrogates for names that are not valid UTF-8.
    """
    return msgspec.convert(_valid(msgspec.to_builtins(point)), Point)


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_valid(name): _valid(each) for name, each in value.items()}
    return value
