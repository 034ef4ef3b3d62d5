"""Sends the points of each region's buses to the agent of the region."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from city_workload.traffic import TickBatch
from mistbow.client import AsyncAgentClient, Point
from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError

_log = structlog.get_logger(__name__)

_MAX_WAITING_BATCHES = 30
"""The maximum number of batches that wait for an agent; beyond this, the oldest batch is lost."""

_Queue = asyncio.Queue[Sequence[Point] | None]

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DeliveryCount:
    """The numbers of points by region: points that agents acknowledged, and lost points."""

    stored: Mapping[str, int]
    lost: Mapping[str, int]


async def send(
    ticks: Iterable[TickBatch],
    agents: Mapping[str, AsyncAgentClient],
    *,
    clock: Clock = system_clock,
    sleep: Sleep = asyncio.sleep,
) -> DeliveryCount:
    """Send the points of each batch to the agents of the points' regions; return the delivery
    counts.

    A batch is sent at the time at which the batch ends. An unreachable agent does not delay other
    regions: if too many batches wait for an agent, the oldest batch is lost. Points of a region
    without an agent are lost.
    """
    stored: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    queues: dict[str, _Queue] = {region: asyncio.Queue(_MAX_WAITING_BATCHES) for region in agents}
    async with asyncio.TaskGroup() as tasks:
        for region, agent in agents.items():
            tasks.create_task(_deliver(region, agent, queues[region], stored, lost))
        for batch in ticks:
            await sleep(max(0.0, (batch.end - clock()) / 1000))
            for region, points in _by_region(batch.points).items():
                lost[region] += _enqueue(queues.get(region), points)
        for queue in queues.values():
            await queue.put(None)
    return DeliveryCount(stored, lost)


def nearest_agents(regions: Sequence[str], agents: Sequence[T]) -> dict[str, T]:
    """Return the agent of each region: region -> agent.

    Both sequences are ordered from west to east; the agents are spread evenly over the regions.

    >>> nearest_agents(["west", "centre", "east"], ["edge", "cloud"])
    {'west': 'edge', 'centre': 'edge', 'east': 'cloud'}
    """
    return {
        region: agents[number * len(agents) // len(regions)]
        for number, region in enumerate(regions)
    }


def _enqueue(queue: _Queue | None, points: Sequence[Point]) -> int:
    """Queue points for an agent; return the number of points that are lost because of this call.

    If the queue is full, the oldest batch is lost. ``queue``: None: the region has no agent, so all
    points are lost.
    """
    if queue is None:
        return len(points)
    dropped = len(queue.get_nowait() or ()) if queue.full() else 0
    queue.put_nowait(points)
    return dropped


async def _deliver(
    region: str,
    agent: AsyncAgentClient,
    queue: _Queue,
    stored: Counter[str],
    lost: Counter[str],
) -> None:
    while (points := await queue.get()) is not None:
        try:
            await agent.put(points)
            stored[region] += len(points)
        except MistbowError as error:
            lost[region] += len(points)
            _log.warning("points_dropped", region=region, points=len(points), reason=error.message)


def _by_region(points: Iterable[Point]) -> Mapping[str, list[Point]]:
    grouped: defaultdict[str, list[Point]] = defaultdict(list)
    for point in points:
        grouped[str((point.labels or {})["region"])].append(point)
    return grouped
