"""A proxy of an agent; the proxy replays a stored stream at the original pace of its points.

The proxy limits the head and the frontier of the stream to the current time of the replay. All
other responses, including rows, are forwarded unchanged from the agent.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from mistbow.streams.schemas import RAW
from tests.support.http_server import served

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_HOP = ("host", "content-length", "connection", "transfer-encoding")


@dataclass
class StreamPace:
    """The pace at which a stored stream is replayed: ``rows`` rows more every ``step_ms``.

    ``begin``: the time (ms) of the replay's start. The replay starts when ``now`` is first read.
    """

    begin: int
    step_ms: int
    rows: int
    lateness_ms: int
    _started: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def now(self) -> int:
        """The current time (ms) of the replay."""
        with self._lock:
            if self._started is None:
                self._started = time.monotonic()
            return self.begin + round((time.monotonic() - self._started) * 1000)

    @property
    def head(self) -> int:
        """The head that the stream has at the current time of the replay."""
        return (self.now - self.begin) // self.step_ms * self.rows

    def frontier(self, number: int) -> int:
        """Return the frontier (ms) that the stream has after the rows before the position
        ``number``.
        """
        return self.begin + number // self.rows * self.step_ms - self.lateness_ms


@contextmanager
def serve_at_pace(agent_url: str, pace: StreamPace) -> Iterator[str]:
    """Serve a proxy of an agent whose stream of points is paced; yield the URL of the proxy."""
    app = FastAPI()
    client = httpx.AsyncClient(base_url=agent_url, timeout=60)

    async def forward(request: Request) -> httpx.Response:
        headers = {k: v for k, v in request.headers.items() if k not in _HOP}
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        made = client.build_request(
            request.method, url, headers=headers, content=await request.body()
        )
        return await client.send(made, stream=True)

    @app.get(f"/streams/{RAW}/offset")
    async def offset(request: Request) -> Any:
        start, max_rows = int(request.query_params["from"]), int(request.query_params["max_rows"])
        head = pace.head
        if head <= start:
            return {"next": start, "frontier": pace.frontier(start), "head": start}
        params = {"from": start, "max_rows": min(max_rows, head - start)}
        found = (await client.get(request.url.path, params=params)).json()
        return {**found, "head": head}

    @app.get(f"/streams/{RAW}/info")
    async def info(request: Request) -> Response:
        found = (await client.get(request.url.path)).json()
        head = min(pace.head, found["head"])
        info_body = {**found, "head": head, "frontier": pace.frontier(head)}
        return Response(msgspec.json.encode(info_body), media_type="application/json")

    @app.api_route("/{path:path}", methods=_METHODS)
    async def other(request: Request) -> Response:
        answer = await forward(request)
        headers = {k: v for k, v in answer.headers.items() if k not in _HOP}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, headers)

    with served(app) as url:
        yield url
