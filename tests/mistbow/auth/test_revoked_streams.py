"""Requests that wait, and answers that are streamed, while their token is revoked."""

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Request
from pydantic import SecretStr
from sse_starlette import EventSourceResponse
from starlette.responses import StreamingResponse

from mistbow.auth.rules import requires
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from mistbow.http.protocol import BoundedProtocol
from mistbow.streams.wire import MEDIA_TYPE
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served

OWN = "of-the-fog"

Endpoint = Callable[..., Awaitable[Any]]


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield b"event"
        await asyncio.sleep(0.1)


@dataclass(frozen=True)
class Service:
    """A served endpoint; ``headers``: those of the token that ``revoke`` revokes."""

    url: str
    headers: dict[str, str]
    revoke: Callable[[], None]


@contextmanager
def service(
    tmp_path: Path, path: str, endpoint: Endpoint, methods: Sequence[str] = ("GET",)
) -> Iterator[Service]:
    """Serve one endpoint; yield its URL, a token for it, and a function that revokes the token."""
    file = tmp_path / "tokens.json"
    content, token = new_token_file().with_token("page", frozenset({"read"}), "", None)
    write_token_file(file, content)
    settings = AgentSettings(home=tmp_path / "home", token=SecretStr(OWN), tokens_file=file)
    app = plain_service(settings)
    router = APIRouter()
    router.add_api_route(path, requires("read")(endpoint), methods=[*methods])
    app.include_router(router)

    def revoke() -> None:
        write_token_file(file, read_token_file(file).without_token("page"))

    with served(app, http=BoundedProtocol) as url:
        yield Service(url, {"Authorization": f"Bearer {token}"}, revoke)


def until_cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts of an answer until the service closes the connection."""
    with suppress(httpx.RemoteProtocolError):
        yield from parts


def test_stream_of_a_revoked_token_ends_and_others_continue(tmp_path: Path) -> None:
    async def events() -> StreamingResponse:
        return StreamingResponse(_endless())

    with (
        service(tmp_path, "/events", events) as served_events,
        httpx.Client(base_url=served_events.url, timeout=10) as client,
    ):
        fog = {"Authorization": f"Bearer {OWN}"}
        with (
            client.stream("GET", "/events", headers=served_events.headers) as answer,
            client.stream("GET", "/events", headers=fog) as other,
        ):
            parts, others = answer.iter_raw(), other.iter_raw()
            assert next(parts) == next(others) == b"event"
            served_events.revoke()
            assert sum(1 for _ in until_cut(parts)) < 50
            assert sum(1 for _, _ in zip(range(20), others, strict=False)) == 20
        assert client.get("/events", headers=served_events.headers).status_code == 401


@pytest.mark.parametrize("media_type", ["application/x-ndjson", MEDIA_TYPE])
def test_incomplete_answer_of_a_revoked_token_has_no_end(
    tmp_path: Path,
    media_type: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Other tests may have set up logging with a higher level.
    caplog.set_level(logging.INFO, logger="mistbow.auth.revocation")

    async def rows() -> StreamingResponse:
        return StreamingResponse(_endless(), media_type=media_type)

    with (
        service(tmp_path, "/rows", rows) as served_rows,
        httpx.stream(
            "GET", f"{served_rows.url}/rows", headers=served_rows.headers, timeout=10
        ) as answer,
    ):
        parts = answer.iter_raw()
        assert next(parts) == b"event"
        served_rows.revoke()
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message"):
            list(parts)
    # It is an event, and no error of the service.
    logged = "".join((*capfd.readouterr(), caplog.text))
    assert logged.count("request_revoked") == 1
    assert "Traceback" not in logged
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_request_that_waits_is_answered_401_with_the_reason(tmp_path: Path) -> None:
    waits = threading.Event()

    async def wait() -> str:
        waits.set()
        await asyncio.sleep(60)
        return "nothing"

    with service(tmp_path, "/wait", wait) as waiting, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.get, f"{waiting.url}/wait", headers=waiting.headers, timeout=10)
        assert waits.wait(10)
        waiting.revoke()
        answered = answer.result()
        assert answered.status_code == 401
        assert "was revoked or has expired" in answered.json()["error"]["message"]


def test_silent_stream_of_events_ends_with_the_reason(tmp_path: Path) -> None:
    async def silence() -> AsyncIterator[str]:
        yield "first"
        await asyncio.sleep(60)

    async def events() -> EventSourceResponse:
        return EventSourceResponse(silence(), ping=60)

    with (
        service(tmp_path, "/events", events) as silent,
        httpx.stream("GET", f"{silent.url}/events", headers=silent.headers, timeout=10) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines) == "data: first"
        silent.revoke()
        rest = [line for line in lines if line]
        assert rest[0] == "event: revoked"
        assert "was revoked or has expired" in rest[1]


def test_change_of_a_token_that_is_revoked_meanwhile_is_not_interrupted(tmp_path: Path) -> None:
    begun: queue.SimpleQueue[str] = queue.SimpleQueue()
    may_end, stored = threading.Event(), []

    async def change(request: Request) -> str:
        begun.put(request.method)
        await asyncio.to_thread(may_end.wait, 20)
        stored.append(request.method)
        return "stored"

    methods = ("POST", "GET")
    with service(tmp_path, "/change", change, methods) as slow, ThreadPoolExecutor(2) as pool:
        answers = []
        for method in methods:
            url = f"{slow.url}/change"
            answers.append(
                pool.submit(httpx.request, method, url, headers=slow.headers, timeout=10)
            )
            assert begun.get(timeout=10) == method
        slow.revoke()
        changed, read = answers
        # The end of the later request shows that the caller of the earlier one was due for a check.
        assert read.result().status_code == 401
        may_end.set()
        assert changed.result().json() == "stored"
        assert stored == ["POST"]
