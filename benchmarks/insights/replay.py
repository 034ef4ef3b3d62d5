"""Benchmark of a stored stream of many points, replayed at its original pace."""

import asyncio
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from analytics.client.worker import WorkerClient
from benchmarks.insights.delays import LATENESS_MS, ResultDelays
from benchmarks.insights.live import WORKER, measure
from benchmarks.insights.paced_stream import StreamPace, serve_at_pace
from benchmarks.insights.services import storage, worker
from benchmarks.insights.workload import ENTITIES, SITE, fragment, metrics
from benchmarks.report import Figure
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.streams.schemas import POINTS, RAW
from storage_agent.ignite.client import METADATA, IgniteClient
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.checkpoint import APPLIED_KEY
from tests.support.conditions import eventually

RATE = 200_000
_INSIGHTS = 100
_STEP_MS = 100
_COMPACT_EVERY = 64
_SETTLE_S = 30
_MAX_GROWTH_MB = 50


def figures(home: Path, seconds: int, insights: int = _INSIGHTS, rate: int = RATE) -> list[Figure]:
    """Store points, then replay the points for about ``seconds``; return the figures."""
    rows = rate * _STEP_MS // 1000
    stored_s = seconds + _SETTLE_S
    begin = system_clock() // 60_000 * 60_000 - stored_s * 1000
    with IgniteServer(home) as ignite:
        asyncio.run(_fill(ignite.port, begin, stored_s, rows, metrics(insights)))
    pace = StreamPace(begin, _STEP_MS, rows, LATENESS_MS)
    with (
        storage(home) as site,
        serve_at_pace(site.url, pace) as url,
        worker(home / "worker", url) as running,
    ):
        client = WorkerClient(running.url)
        fragment_spec = fragment(insights, begin)
        client.run(fragment_spec)
        delays = ResultDelays(AgentClient(site.url), fragment_spec.target.stream, lambda: pace.now)
        eventually(
            lambda: client.show(fragment_spec.id).state == "running",
            timeout=120,
            what="the fragment runs",
        )
        left = stored_s - (pace.now - begin) / 1000 - _SETTLE_S / 2
        time.sleep(_SETTLE_S / 2)
        found = measure(delays, site, running.pid, left)
        lag = client.show(fragment_spec.id).lag_ms
        client.stop(fragment_spec.id)
    memory = [
        sum(each) for each in zip(*(found.usage[one].memories for one in WORKER), strict=True)
    ]
    third = max(len(memory) // 3, 1)
    growth = statistics.mean(memory[-third:]) - statistics.mean(memory[third : 2 * third] or memory)
    name = f"{insights} insights, {rate:,} points/s for {round(found.seconds)} s"
    return [
        Figure(f"{name}: delay, p50", "ms", [found.percentile(50)]),
        Figure(f"{name}: delay, p95", "ms", [found.percentile(95)], at_most=2000),
        Figure(f"{name}: results overdue at the end", "ms", [lag]),
        Figure(f"{name}: worker", "cores", [found.cores(*WORKER)]),
        Figure(f"{name}: agent", "cores", [found.cores("agent")]),
        Figure(f"{name}: Ignite", "cores", [found.cores("ignite")]),
        Figure(f"{name}: worker's memory at most", "MB", [max(memory)]),
        Figure(
            "the same, last third against the middle one",
            "MB",
            [growth],
            at_most=_MAX_GROWTH_MB,
        ),
        Figure(f"{name}: agent's memory at most", "MB", [found.memory("agent")]),
    ]


async def _fill(port: int, begin: int, seconds: int, rows: int, names: list[str]) -> None:
    """Store and compact points as an agent does, with a clock that follows the points."""
    now = begin
    ignite = IgniteClient([("127.0.0.1", port)])
    ignite.start()
    await ignite.wait_connected()
    streams = Streams(ignite, lambda: now, LATENESS_MS)
    await streams.recover({})
    raw = await streams.get(RAW)
    maintenance = Maintenance(lambda: [raw.log], lambda: now, StorageLimit, lambda _: False)
    epoch = await raw.writer.claim_timed()
    words = _columns(rows, names)
    for number in range(seconds * 1000 // _STEP_MS):
        now = begin + (number + 1) * _STEP_MS
        await raw.writer.append(_points(words, rows, now), epoch=epoch)
        if number % _COMPACT_EVERY == 0:
            await maintenance.run()
    before, runs = None, raw.log.manifest.current.runs
    while runs != before:
        await maintenance.run()
        before, runs = runs, raw.log.manifest.current.runs
    # As an agent does, so that its start replays nothing.
    await ignite.put(METADATA, APPLIED_KEY, str(raw.log.head).encode())
    await streams.close()
    await ignite.close()


def _columns(rows: int, names: list[str]) -> list[pa.Array]:
    """Return the columns metric, entity and attributes of a segment; the series alternate."""
    series = np.arange(rows) % (len(names) * ENTITIES)
    entities = [f"e{number}" for number in range(ENTITIES)]
    return [
        pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(words))
        for indices, words in (
            (series // ENTITIES, names),
            (series % ENTITIES, entities),
            (series % ENTITIES, [f'{{"entityID":"{one}","site":"{SITE}"}}' for one in entities]),
        )
    ]


def _points(words: list[pa.Array], rows: int, now: int) -> pa.RecordBatch:
    """Return the points of a segment of ``rows`` rows, spread evenly over the last step before
    ``now``.
    """
    ts = now - _STEP_MS + 1 + np.arange(rows) * _STEP_MS // rows
    values = np.round(50 + 30 * np.sin(ts / 7000 + np.arange(rows)), 2)
    return pa.RecordBatch.from_arrays([*words, pa.array(ts), pa.array(values)], schema=POINTS)
