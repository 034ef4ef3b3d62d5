"""Answers that are streamed while their token is revoked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
from fastapi import APIRouter
from pydantic import SecretStr
from starlette.responses import StreamingResponse

from mistbow.auth.rules import requires
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from mistbow.http.protocol import BoundedProtocol
from mistbow.service import create_service
from storage_agent.settings import AgentSettings
from tests.support.http_server import served

OWN = "of-the-fog"


async def _ready() -> list[str]:
    return []


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield b"event"
        await asyncio.sleep(0.1)


def test_stream_of_a_revoked_token_ends_and_others_continue(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    content, token = new_token_file().with_token("page", frozenset({"read"}), "", None)
    write_token_file(file, content)
    settings = AgentSettings(home=tmp_path / "home", token=SecretStr(OWN), tokens_file=file)
    app = create_service("test", settings, readiness=_ready)
    router = APIRouter()

    @router.get("/events")
    @requires("read")
    async def events() -> StreamingResponse:
        return StreamingResponse(_endless())

    app.include_router(router)
    with served(app, http=BoundedProtocol) as url, httpx.Client(base_url=url, timeout=10) as client:
        revoked, fog = ({"Authorization": f"Bearer {each}"} for each in (token, OWN))
        with (
            client.stream("GET", "/events", headers=revoked) as answer,
            client.stream("GET", "/events", headers=fog) as other,
        ):
            parts, others = answer.iter_raw(), other.iter_raw()
            assert next(parts) == next(others) == b"event"
            write_token_file(file, read_token_file(file).without_token("page"))
            assert sum(1 for _ in parts) < 50
            assert sum(1 for _, _ in zip(range(20), others, strict=False)) == 20
        assert client.get("/events", headers=revoked).status_code == 401
