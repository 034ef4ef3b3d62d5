"""Benchmark of a day of points of 1,000 series: storing, reading, and the size on disk."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.report import Figure
from benchmarks.storage.http_clients import RequestTimes, fetch_json, post, run_clients
from benchmarks.storage.storage_site import METRICS, StorageSite, item, running_site
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import POINTS, RAW
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.checkpoint import APPLIED_KEY

_SERIES = 1000
_DAY_S = 86_400
_HOUR_MS = 3_600_000
_SEGMENT_S = 10
"""The number of points per series in a segment, and the seconds that a segment covers."""

_COMPACT_EVERY = 6
"""The number of segments (a minute of points) between two compactions.

Compaction in an agent is at least as frequent.
"""

_JITTER_MS = 50
_RUNS = 5
_REQUESTS = 40
_SUBSCRIBED_POINTS = 10_000_000


def figures(home: Path) -> list[Figure]:
    """Store a day of points with the agent's writer, then read the points from a running agent."""
    began = time.time_ns() // 1_000_000 - _DAY_S * 1000
    with IgniteServer(home) as ignite:
        filled_s = asyncio.run(_fill(ignite.port, began))
    stored = _SERIES * _DAY_S
    size = sum(each.stat().st_size for each in (home / "ignite").rglob("*") if each.is_file())
    with running_site(home) as running:
        _describe(running.url)
        hours = [_read_hours(running, began, run) for run in range(_RUNS)]
        rates = [_subscribe_rate(running) for _ in range(_RUNS)]
    return [
        Figure(
            f"one hour of one of {_SERIES:,} series, a day stored, p50",
            "ms",
            [run.milliseconds(0.5) for run in hours],
            at_most=20,
        ),
        Figure("the same, p95", "ms", [run.milliseconds(0.95) for run in hours]),
        Figure(
            f"bytes on disk per point, at rest, Ignite's log included ({stored:,} points)",
            "B",
            [size / stored],
            at_most=6,
        ),
        Figure("subscribe, Arrow, one consumer", "points/s", rates, at_least=1_000_000),
        Figure("stored and merged by the writer itself", "points/s", [stored / filled_s]),
    ]


def _describe(url: str) -> None:
    now = time.time_ns() // 1_000_000
    items = [item(series, now, 50.0) for series in range(_SERIES)]
    run_clients(url, lambda _, __: post(url, "/put", {"monitoring": items}), clients=1, each=1)


async def _fill(port: int, began: int) -> float:
    """Store and compact a day of points as an agent does; return the duration in seconds.

    The clock follows the points.
    """
    now = began
    ignite = IgniteClient([("127.0.0.1", port)])
    ignite.start()
    await ignite.wait_connected()
    streams = Streams(ignite, lambda: now, 1000)
    await streams.recover({})
    raw = await streams.get(RAW)
    maintenance = Maintenance(lambda: [raw.log], lambda: now, StorageLimit, lambda _: False)
    epoch = await raw.writer.claim_timed()
    points = _Points()
    fill_began = time.perf_counter()
    for number in range(_DAY_S // _SEGMENT_S):
        now = began + (number + 1) * _SEGMENT_S * 1000
        await raw.writer.append(points.until(now), epoch=epoch)
        if number % _COMPACT_EVERY == 0:
            await maintenance.run()
    while True:
        before = raw.log.manifest.current
        now += 120_000  # the grace period of garbage is over
        await maintenance.run()
        if raw.log.manifest.current == before and not before.garbage:
            break
    seconds = time.perf_counter() - fill_began
    # As an agent does, so that its start replays nothing.
    await ignite.put(METADATA, APPLIED_KEY, str(raw.log.head).encode())
    await streams.close()
    await ignite.close()
    return seconds


class _Points:
    """Generates points of all series, one point per second and series.

    The values are random walks with two decimals; the times are jittered.
    """

    def __init__(self) -> None:
        self._chance = np.random.default_rng(5)
        self._values = self._chance.uniform(20, 80, _SERIES)
        of_metric = np.arange(_SERIES) % METRICS
        of_entity = np.arange(_SERIES) // METRICS
        self._columns = [
            pa.DictionaryArray.from_arrays(
                pa.array(np.tile(indices, _SEGMENT_S), pa.int32()), pa.array(words)
            )
            for indices, words in (
                (of_metric, [f"metric.{n}" for n in range(METRICS)]),
                (of_entity, [f"node-{n}" for n in range(_SERIES // METRICS)]),
                (np.zeros(_SERIES, np.int64), ['{"node":"n1"}']),
            )
        ]

    def until(self, now: int) -> pa.RecordBatch:
        """Return the points of the segment that ends at ``now`` (ms)."""
        steps = np.round(self._chance.normal(0, 0.5, (_SEGMENT_S, _SERIES)), 2)
        values = np.round(np.clip(self._values + np.cumsum(steps, axis=0), 0, 100), 2)
        self._values = values[-1]
        seconds = np.arange(_SEGMENT_S)[:, None] * 1000 + now - _SEGMENT_S * 1000
        times = seconds + self._chance.integers(0, _JITTER_MS, (_SEGMENT_S, _SERIES))
        columns = [*self._columns, pa.array(times.ravel()), pa.array(values.ravel())]
        return pa.RecordBatch.from_arrays(columns, schema=POINTS)


def _read_hours(running: StorageSite, began: int, run: int) -> RequestTimes:
    """Measure requests for one hour of one series; each request reads another hour or series."""

    def request(_: int, number: int) -> bytes:
        series = (run * 211 + number * 37) % _SERIES
        start = began + (run * 5 + number * 7) % 23 * _HOUR_MS
        body = {
            "metricID": [f"metric.{series % METRICS}"],
            "entityID": [f"node-{series // METRICS}"],
            "from": start,
            "to": start + _HOUR_MS - 1,
        }
        return post(running.url, "/get", body)

    [node] = fetch_json(running.url, request(0, 1))["monitoring"]
    assert sum(len(series["values"]) for series in node["data"]) == _HOUR_MS // 1000
    return run_clients(running.url, request, clients=1, each=_REQUESTS)


def _subscribe_rate(running: StorageSite) -> float:
    """Return the rate (points/s) at which one subscriber reads stored rows."""
    start = _SERIES * _DAY_S // 4
    client = AgentClient(running.url)
    began = time.perf_counter()
    read = 0
    for chunk in client.follow(RAW, start):
        read += chunk.rows.num_rows
        if read >= _SUBSCRIBED_POINTS:
            break
    seconds = time.perf_counter() - began
    client.close()
    return read / seconds
