"""What ends when an identity is revoked: streamed answers, and sessions with a revoked server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter
from starlette.responses import StreamingResponse

from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile, read_identity_file
from mistbow.auth.rules import requires
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from mistbow.errors import InvalidRequestError, UnauthorizedError
from mistbow.settings import ServiceSettings
from tests.support.http_server import plain_service

URL = "http://the-service:80"
END = utc_now() + timedelta(days=1)


def _client(home: Path, server: Path, client: Path, router: APIRouter) -> httpx.AsyncClient:
    """Return a client for a service with ``router``; ``server``, ``client``: their identities."""
    settings = {"home": home, "own_urls": URL, "identity_file": server}
    app = plain_service(ServiceSettings.model_validate(settings))
    app.include_router(router)
    auth = ServiceCredentials(URL, IdentityFile(client))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL, auth=auth)


def _kept(fog: FogKeys, name: str) -> Path:
    """Return a copy of an identity, which no revocation changes."""
    copy = fog.folder.parent / f"{name}.kept"
    copy.write_bytes((fog.folder / f"{name}.identity").read_bytes())
    return copy


async def test_stream_of_a_revoked_identity_ends(fog: FogKeys, tmp_path: Path) -> None:
    server = fog.issue("server", "agent", "edge", END)
    fog.issue("thief", "agent", "edge", END)
    router, sent = APIRouter(), []

    async def parts() -> AsyncIterator[bytes]:
        fog.revoke("thief")
        for _ in range(100):
            sent.append(b"x")
            yield b"x"
            await asyncio.sleep(0.03)

    @router.get("/events")
    @requires("read")
    async def events() -> StreamingResponse:
        return StreamingResponse(parts())

    async with _client(tmp_path, server, _kept(fog, "thief"), router) as client:
        with pytest.raises(UnauthorizedError, match="was revoked"):
            await client.get("/events")
    assert 0 < len(sent) < 60


async def test_session_with_a_revoked_server_ends(fog: FogKeys, tmp_path: Path) -> None:
    fog.issue("server", "agent", "edge", END)
    mine = fog.issue("mine", "agent", "core", END)
    router = APIRouter()

    @router.get("/streams")
    @requires("replicate")
    async def streams() -> str:
        return "all"

    # The thief's server keeps its file as it was.
    async with _client(tmp_path, _kept(fog, "server"), mine, router) as client:
        assert (await client.get("/streams")).status_code == 200
        fog.revoke("server")
        with pytest.raises(httpx.RequestError, match="the agent server is revoked"):
            await client.get("/streams")


def test_revocations_are_kept_without_the_files_of_others(fog: FogKeys) -> None:
    for name in ("a", "b"):
        fog.issue(name, "agent", "edge", END)
    stolen = IdentityFile(_kept(fog, "b"))
    fog.revoke("a")
    fog.revoke("b")
    later = read_identity_file(fog.issue("c", "agent", "edge", END))
    assert stolen.current().credential.id in later.revoked
    assert len(later.revoked) == 2


def test_damaged_identity_does_not_prevent_a_revocation(fog: FogKeys) -> None:
    other = fog.issue("other", "agent", "edge", END)
    fog.issue("thief", "agent", "edge", END)
    damaged = fog.issue("damaged", "agent", "edge", END)
    damaged.write_text("{")
    assert fog.revoke("thief") == [other]
    assert fog.is_revoked("thief")
    assert read_identity_file(other).revoked
    assert isinstance(fog.all()["damaged"], InvalidRequestError)
    assert fog.issue("damaged", "agent", "edge", END) == damaged
    assert read_identity_file(damaged).revoked


@pytest.mark.parametrize("name", ["issued.json", "revoked.json"])
def test_damaged_list_of_the_fog_s_folder_is_named(fog: FogKeys, name: str) -> None:
    fog.issue("thief", "agent", "edge", END)
    (fog.folder / name).write_text("{")
    with pytest.raises(InvalidRequestError, match=rf"{name} is invalid"):
        fog.revoke("thief")
