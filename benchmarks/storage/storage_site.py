"""Runs the site that benchmarks measure, and builds the requests that send points to this site."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.storage.http_clients import post
from ignite_server.server import IgniteServer
from tests.support.services import storage_agent

METRICS = 10


@dataclass(frozen=True)
class StorageSite:
    """A storage agent and its Ignite node, each in a separate process."""

    url: str
    agent: psutil.Process
    ignite: psutil.Process
    home: Path

    @property
    def processes(self) -> tuple[psutil.Process, psutil.Process]:
        """The processes of the agent and of Ignite."""
        return self.agent, self.ignite


@contextmanager
def running_site(
    home: Path, durability: str = "fsync", **settings: object
) -> Iterator[StorageSite]:
    """Run a site, by default with default settings, inside the ``with`` block."""
    with (
        IgniteServer(home, durability=durability) as ignite,  # type: ignore[arg-type]
        storage_agent(home, ignite.port, port=None, **settings) as agent,
    ):
        yield StorageSite(agent.url, psutil.Process(agent.pid), psutil.Process(ignite.pid), home)


def item(series: int, at: int, value: float) -> dict[str, Any]:
    """Return a point of the series number ``series``, in the form that a collector sends."""
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
    """Return ``count`` requests that store ``points`` live points each.

    Different clients send points of different series.
    """
    chance = random.Random(client)
    now = time.time_ns() // 1_000_000
    requests = []
    for number in range(count):
        items = [
            item(
                (client * series + number * points + place) % series + client * series,
                now + number,
                round(chance.uniform(0, 100), 2),
            )
            for place in range(points)
        ]
        requests.append(post(url, "/put", {"monitoring": items}))
    return requests
