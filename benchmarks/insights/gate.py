"""A gate before an agent: a stream that is stored whole seems to come at its own pace.

Whoever asks how far it may read is told only of what would be there by now; all else, the rows
themselves too, comes from the agent as it is.
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
from tests.support.serving import served

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_HOP = ("host", "content-length", "connection", "transfer-encoding")


@dataclass
class Pace:
    """How a stored stream goes: commits of ``rows`` each ``step_ms``, the first one at ``begin``.

    It begins to move when it is first asked for.
    """

    begin: int
    step_ms: int
    rows: int
    lateness_ms: int
    _started: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def now(self) -> int:
        """The time (ms) by which the stream goes."""
        with self._lock:
            if self._started is None:
                self._started = time.monotonic()
            return self.begin + round((time.monotonic() - self._started) * 1000)

    @property
    def head(self) -> int:
        """How many rows there would be now."""
        return (self.now - self.begin) // self.step_ms * self.rows

    def frontier(self, number: int) -> int:
        """Return the event time (ms) up to which all is there with the rows before a number."""
        return self.begin + number // self.rows * self.step_ms - self.lateness_ms


@contextmanager
def gate(agent_url: str, pace: Pace) -> Iterator[str]:
    """Serve what the agent serves, but for the pace of the stream of points; yield the URL."""
    app = FastAPI()
    client = httpx.AsyncClient(base_url=agent_url, timeout=60)

    async def asked(request: Request) -> httpx.Response:
        headers = {k: v for k, v in request.headers.items() if k not in _HOP}
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        made = client.build_request(
            request.method, url, headers=headers, content=await request.body()
        )
        return await client.send(made, stream=True)

    @app.get(f"/streams/{RAW}/offset")
    async def offset(request: Request) -> Any:
        start, most = int(request.query_params["from"]), int(request.query_params["max_rows"])
        head = pace.head
        if head <= start:
            return {"next": start, "frontier": pace.frontier(start), "head": start}
        params = {"from": start, "max_rows": min(most, head - start)}
        found = (await client.get(request.url.path, params=params)).json()
        return {**found, "head": head}

    @app.get(f"/streams/{RAW}/info")
    async def info(request: Request) -> Response:
        found = (await client.get(request.url.path)).json()
        head = min(pace.head, found["head"])
        told = {**found, "head": head, "frontier": pace.frontier(head)}
        return Response(msgspec.json.encode(told), media_type="application/json")

    @app.api_route("/{path:path}", methods=_METHODS)
    async def other(request: Request) -> Response:
        answer = await asked(request)
        headers = {k: v for k, v in answer.headers.items() if k not in _HOP}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, headers)

    with served(app) as url:
        yield url
