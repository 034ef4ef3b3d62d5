"""Clients of the enabler continue to receive results after a connection breaks."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from analytics.client.enabler import AsyncEnablerClient, EnablerClient
from analytics.client.event_calls import events
from mistbow.client import methods
from mistbow.errors import MistbowError, NotFoundError
from tests.support.http_server import served

_RESULTS = 2


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_RECONNECT_S", 0.0)


@pytest.fixture
def enabler() -> Iterator[str]:
    """Serve results like an enabler, but end each connection after one result; yield the URL.

    The deployment ``deleted`` has two results, and then no longer exists (404). The deployment
    ``refused`` has one result, and then refuses requests (403). No other deployments exist.
    """
    app = FastAPI()

    @app.get("/api/insights/{deployment}/results/follow")
    def answer(deployment: str, request: Request) -> Response:
        last = int(request.headers.get("Last-Event-ID") or 0)
        if deployment == "refused" and last:
            return JSONResponse(_error("forbidden"), 403)
        if deployment not in ("deleted", "refused") or last == _RESULTS:
            return JSONResponse(_error("not_found"), 404)
        return Response(_event(last + 1), media_type="text/event-stream")

    with served(app) as url:
        yield url


def _error(code: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": code}}


def _event(number: int) -> bytes:
    result = {"insight": "i", "key": {}, "ts": number, "value": 1, "revision": 0, "computed_at": 0}
    return f"id: {number}\nevent: result\ndata: {json.dumps(result)}\n\n".encode()


def test_follow_continues_after_breaks_until_the_deployment_is_deleted(enabler: str) -> None:
    client = EnablerClient(enabler)
    assert [result.ts for result in client.follow("deleted")] == [1, 2]
    assert [result.ts for result in client.follow("deleted", after="1")] == [2]
    client.close()


async def test_async_follow_continues_after_breaks_until_the_deployment_is_deleted(
    enabler: str,
) -> None:
    client = AsyncEnablerClient(enabler)
    assert [result.ts async for result in client.follow("deleted")] == [1, 2]
    with pytest.raises(NotFoundError):
        await anext(client.follow("unknown"))
    await client.close()


def test_follow_raises_errors_that_a_retry_cannot_resolve(enabler: str) -> None:
    client = EnablerClient(enabler)
    with pytest.raises(NotFoundError):
        next(client.follow("unknown"))
    followed = client.follow("refused")
    assert next(followed).ts == 1
    with pytest.raises(MistbowError, match="forbidden"):
        next(followed)
    client.close()


def test_live_events_are_yielded_without_pings() -> None:
    names = ["hello", "ping", "state", "ping"]
    content = "".join(f"event: {name}\ndata: {{}}\n\n" for name in names)
    answer = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, text=content)
    items = events(["states"]).stream().items
    assert [each.name for each in items.read(answer)] == ["hello", "state"]
