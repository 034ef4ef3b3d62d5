"""Sending what the buses report to the agents that are nearest to them."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from mistbow.city.traffic import Batch
from mistbow.client import AsyncAgentClient, Point
from mistbow.clock import Clock, system_clock
from mistbow.errors import MistbowError

_log = structlog.get_logger(__name__)

_WAITING_BATCHES = 30
"""So many batches wait for a region's agent; a bus has no more room than that either."""

_Queue = asyncio.Queue[Sequence[Point] | None]

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Sent:
    """Points by region: what agents acknowledged, and what was lost on the way."""

    stored: Mapping[str, int]
    lost: Mapping[str, int]


async def send(
    ticks: Iterable[Batch],
    agents: Mapping[str, AsyncAgentClient],
    *,
    clock: Clock = system_clock,
    sleep: Sleep = asyncio.sleep,
) -> Sent:
    """Send each batch when its time is over, by region, until the batches end.

    An agent that is away holds up no other region: its oldest batches are lost when too many wait.
    Points of a region without an agent are lost.
    """
    stored: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    queues: dict[str, _Queue] = {region: asyncio.Queue(_WAITING_BATCHES) for region in agents}
    async with asyncio.TaskGroup() as tasks:
        for region, agent in agents.items():
            tasks.create_task(_deliver(region, agent, queues[region], stored, lost))
        for batch in ticks:
            await sleep(max(0.0, (batch.end - clock()) / 1000))
            for region, points in _by_region(batch.points).items():
                lost[region] += _enqueue(queues.get(region), points)
        for queue in queues.values():
            await queue.put(None)
    return Sent(stored, lost)


def nearest(regions: Sequence[str], agents: Sequence[T]) -> dict[str, T]:
    """Return each region's agent, where agents stand evenly from west to east.

    >>> nearest(["west", "centre", "east"], ["edge", "cloud"])
    {'west': 'edge', 'centre': 'edge', 'east': 'cloud'}
    """
    return {
        region: agents[number * len(agents) // len(regions)]
        for number, region in enumerate(regions)
    }


def _enqueue(queue: _Queue | None, points: Sequence[Point]) -> int:
    """Let points wait for their agent; return how many are lost for that."""
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
            _log.warning("points are lost", region=region, points=len(points), why=error.message)


def _by_region(points: Iterable[Point]) -> Mapping[str, list[Point]]:
    grouped: defaultdict[str, list[Point]] = defaultdict(list)
    for point in points:
        grouped[str((point.labels or {})["region"])].append(point)
    return grouped
