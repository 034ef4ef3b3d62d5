"""The time ranges of reads of the latest results whose density in time varies."""

from collections.abc import AsyncIterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from analytics_enabler.results import reader, streams
from analytics_enabler.results.reader import ResultReader
from analytics_enabler.results.selection import select
from analytics_enabler.results.streams import ResultStreams
from mistbow.auth.callers import FOG
from mistbow.client.agent import AsyncAgentClient
from mistbow.streams.models import StreamInfo
from mistbow.streams.schemas import RESULT_ROWS
from mistbow.streams.wire import MEDIA_TYPE, Chunk, ChunkEncoder, Position
from tests.analytics_enabler.support import deployment
from tests.support.http_server import served

NOW = 1_800_000_000_000
SPARSE = range(NOW - 60_000, NOW - 1000, 200)
DENSE = range(NOW - 600, NOW)
FOLLOWED = deployment("a = COMPUTE AVG(x) EVERY 1 s")


def stored() -> pa.Table:
    """Return results at each 200 ms of a minute, and at each ms of the last moment."""
    (generation,) = FOLLOWED.live
    row = {"insight": generation.uid, "key": "{}", "value": 1.0, "revision": 0, "computed_at": 0}
    rows = [{**row, "ts": ts} for ts in (*SPARSE, *DENSE)]
    return pa.Table.from_pylist(rows, schema=RESULT_ROWS)


@pytest.fixture
async def agent() -> AsyncIterator[tuple[AsyncAgentClient, list[int]]]:
    """Serve the stored results; yield a client, and the lengths (ms) of the ranges it reads."""
    app, rows, spans = FastAPI(), stored(), list[int]()

    @app.get("/streams/results/all.fair/info")
    async def info() -> Response:
        of = StreamInfo("results/all.fair", [], 0, rows.num_rows, NOW, 1, {}, 0, None)
        return Response(msgspec.json.encode(of), media_type="application/json")

    @app.get("/streams/results/all.fair")
    async def read(min_ts: int, max_ts: int = NOW) -> Response:
        spans.append(max_ts - min_ts)
        selected = pc.and_(pc.greater_equal(rows["ts"], min_ts), pc.less_equal(rows["ts"], max_ts))
        encoder = ChunkEncoder(RESULT_ROWS)
        found = pa.RecordBatch.from_pylist(rows.filter(selected).to_pylist(), schema=RESULT_ROWS)
        body = encoder.encode(Chunk(found, Position(rows.num_rows, NOW))) + encoder.close()
        return Response(body, media_type=MEDIA_TYPE)

    with served(app) as url:
        client = AsyncAgentClient(url)
        yield client, spans
        await client.close()


async def test_ranges_grow_again_after_a_dense_moment(
    agent: tuple[AsyncAgentClient, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, spans = agent
    for module in (streams, reader):
        monkeypatch.setattr(module, "MAX_READ_BYTES", 40_000)
    results = ResultReader(ResultStreams(client, lambda: ""), lambda: NOW)
    selection = select(FOLLOWED, None, FOG)
    latest = await results.latest(selection, start=SPARSE.start, end=None, limit=10_000)
    assert latest.table["ts"].to_pylist() == [*SPARSE, *DENSE]
    assert min(spans) < 600
    assert len(spans) < 30
