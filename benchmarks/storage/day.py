"""A day of 1,000 series in the store: how it is filled, read and how much room it takes."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.report import Figure
from benchmarks.storage.connections import Answered, answer, ask, post
from benchmarks.storage.fleet import METRICS, Site, item, site
from mistbow.client.agent import AgentClient
from mistbow.ignite.server import IgniteServer
from mistbow.streams.schemas import POINTS, RAW
from storage_agent.ignite_client import METADATA, IgniteClient
from storage_agent.monitoring.catalogue import APPLIED
from storage_agent.streams.housekeeping import Bound, Housekeeper
from storage_agent.streams.streams import Streams

_SERIES = 1000
_DAY_S = 86_400
_HOUR_MS = 3_600_000
_COMMIT_S = 10
"""So many points of each series come in one commit: one a second."""

_KEEP_EVERY = 6
"""Commits between two looks at the stream: a minute, of which an agent's looks are not further
apart, so that merging keeps pace and what was merged goes."""

_JITTER_MS = 50
_RUNS = 5
_ASKED = 40
_SUBSCRIBED = 10_000_000


def figures(home: Path) -> list[Figure]:
    """Fill the store by the agent's own writer, and let a real agent answer from it."""
    began = time.time_ns() // 1_000_000 - _DAY_S * 1000
    with IgniteServer(home) as ignite:
        filled_s = asyncio.run(_fill(ignite.port, began))
    stored = _SERIES * _DAY_S
    size = sum(each.stat().st_size for each in (home / "ignite").rglob("*") if each.is_file())
    with site(home) as running:
        _describe(running.url)
        hours = [_hours(running, began, run) for run in range(_RUNS)]
        rates = [_subscribed(running) for _ in range(_RUNS)]
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
    ask(url, lambda _, __: post(url, "/put", {"monitoring": items}), clients=1, each=1)


async def _fill(port: int, began: int) -> float:
    """Write and merge a day as the agent does, by a clock that goes with the points."""
    now = began
    ignite = IgniteClient([("127.0.0.1", port)])
    ignite.start()
    await ignite.wait_connected()
    streams = Streams(ignite, lambda: now, 1000, lambda _: None)
    await streams.recover({})
    raw = await streams.get(RAW)
    keeper = Housekeeper(lambda: [raw.log], lambda: now, Bound, lambda _: False)
    epoch = await raw.writer.own()
    points = _Points()
    took = time.perf_counter()
    for number in range(_DAY_S // _COMMIT_S):
        now = began + (number + 1) * _COMMIT_S * 1000
        await raw.writer.append(points.until(now), epoch=epoch)
        if number % _KEEP_EVERY == 0:
            await keeper.keep()
    while True:
        before = raw.log.manifest.current
        now += 120_000  # by then all that was replaced may go
        await keeper.keep()
        if raw.log.manifest.current == before and not before.trash:
            break
    took = time.perf_counter() - took
    # As an agent would have noted: nothing is to be replayed when one starts.
    await ignite.put(METADATA, APPLIED, str(raw.log.head).encode())
    await streams.close()
    await ignite.close()
    return took


class _Points:
    """Points of all series, one a second each: walks of two decimals, times that jitter."""

    def __init__(self) -> None:
        self._chance = np.random.default_rng(5)
        self._values = self._chance.uniform(20, 80, _SERIES)
        of_metric = np.arange(_SERIES) % METRICS
        of_entity = np.arange(_SERIES) // METRICS
        self._words = [
            pa.DictionaryArray.from_arrays(
                pa.array(np.tile(indices, _COMMIT_S), pa.int32()), pa.array(words)
            )
            for indices, words in (
                (of_metric, [f"metric.{n}" for n in range(METRICS)]),
                (of_entity, [f"node-{n}" for n in range(_SERIES // METRICS)]),
                (np.zeros(_SERIES, np.int64), ['{"node":"n1"}']),
            )
        ]

    def until(self, now: int) -> pa.RecordBatch:
        """Return the points of the seconds before ``now``."""
        steps = np.round(self._chance.normal(0, 0.5, (_COMMIT_S, _SERIES)), 2)
        values = np.round(np.clip(self._values + np.cumsum(steps, axis=0), 0, 100), 2)
        self._values = values[-1]
        seconds = np.arange(_COMMIT_S)[:, None] * 1000 + now - _COMMIT_S * 1000
        times = seconds + self._chance.integers(0, _JITTER_MS, (_COMMIT_S, _SERIES))
        columns = [*self._words, pa.array(times.ravel()), pa.array(values.ravel())]
        return pa.RecordBatch.from_arrays(columns, schema=POINTS)


def _hours(running: Site, began: int, run: int) -> Answered:
    """Ask for another hour of another series each time."""

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

    [node] = answer(running.url, request(0, 1))["monitoring"]
    assert sum(len(series["values"]) for series in node["data"]) == _HOUR_MS // 1000
    return ask(running.url, request, clients=1, each=_ASKED)


def _subscribed(running: Site) -> float:
    """Return the points per second that one consumer reads from within the stream."""
    start = _SERIES * _DAY_S // 4
    client = AgentClient(running.url)
    began = time.perf_counter()
    read = 0
    for chunk in client.follow(RAW, start):
        read += chunk.rows.num_rows
        if read >= _SUBSCRIBED:
            break
    took = time.perf_counter() - began
    client.close()
    return read / took
