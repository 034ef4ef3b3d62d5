"""Clients of the enabler continue to receive results after a connection breaks."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from analytics.client.enabler import AsyncEnablerClient, EnablerClient
from mistbow.client import methods
from mistbow.errors import MistbowError, NotFoundError

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

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            last = int(self.headers.get("Last-Event-ID") or 0)
            deployment = self.path.split("/")[3]
            if deployment == "refused" and last:
                self._answer(403, json.dumps(_error("forbidden")).encode(), "application/json")
            elif deployment not in ("deleted", "refused") or last == _RESULTS:
                self._answer(404, json.dumps(_error("not_found")).encode(), "application/json")
            else:
                self._answer(200, _event(last + 1), "text/event-stream")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
