"""The nodes and metrics that the storage benchmarks measure, and what they send."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.storage.connections import post
from mistbow.ignite.server import IgniteServer
from tests.support.services import storage_agent

METRICS = 10


@dataclass(frozen=True)
class Site:
    """A storage agent and its Ignite, each a process of its own."""

    url: str
    agent: psutil.Process
    ignite: psutil.Process
    home: Path

    @property
    def processes(self) -> tuple[psutil.Process, psutil.Process]:
        """Both."""
        return self.agent, self.ignite


@contextmanager
def site(home: Path, durability: str = "fsync", **settings: object) -> Iterator[Site]:
    """Run a site with the settings that it has by default."""
    with (
        IgniteServer(home, durability=durability) as ignite,  # type: ignore[arg-type]
        storage_agent(home, ignite.port, **settings) as agent,
    ):
        yield Site(agent.url, psutil.Process(agent.pid), psutil.Process(ignite.pid), home)


def item(series: int, at: int, value: float) -> dict[str, Any]:
    """Return the point of a series as a node's collector sends it."""
    metric, entity = series % METRICS, series // METRICS
    return {
        "metricID": f"metric.{metric}",
        "entityID": f"node-{entity}",
        "entityType": "host",
        "name": f"metric {metric}",
        "units": "percent",
        "group": "host",
        "val": value,
        "timestamp": at,
    }


def bodies(url: str, client: int, points: int, series: int, count: int) -> list[bytes]:
    """Return some requests to store points of now, of other series than other clients send."""
    chance = random.Random(client)
    now = time.time_ns() // 1_000_000
    made = []
    for number in range(count):
        items = [
            item(
                (client * series + number * points + place) % series + client * series,
                now + number,
                round(chance.uniform(0, 100), 2),
            )
            for place in range(points)
        ]
        made.append(post(url, "/put", {"monitoring": items}))
    return made
