"""Answers of a service whose machine was stolen: compressed ones, and endless ones."""

import asyncio
import gzip
import itertools
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from fastapi import Response
from fastapi.responses import StreamingResponse

from mistbow.auth.rules import requires
from mistbow.client.bounded_answers import IN_PARTS, at_most
from mistbow.client.credentials import ServiceCredentials
from mistbow.client.transport import AsyncTransport, Call, Transport, no_answer
from mistbow.errors import UnavailableError
from mistbow.settings import ServiceSettings
from tests.support.http_server import plain_service, served

pytestmark = pytest.mark.integration

TOKEN = "t0ken-of-the-fog"  # noqa: S105 - of this test
BOMB = gzip.compress(bytes(2**24))


@pytest.fixture(scope="module")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A program of a thief, which proves that it belongs to the fog; yields its URL."""
    settings = ServiceSettings.model_validate(
        {"home": tmp_path_factory.mktemp("rogue"), "token": TOKEN}
    )
    app = plain_service(settings)

    @app.get("/bomb")
    @requires("read")
    async def bomb() -> Response:
        return Response(BOMB, headers={"Content-Encoding": "gzip"})

    @app.get("/endless")
    @requires("read")
    async def endless(status: str = "200") -> Response:
        async def parts() -> AsyncIterator[bytes]:
            for _ in itertools.count():
                yield bytes(2**20)
                await asyncio.sleep(0)

        return StreamingResponse(parts(), int(status))

    @app.get("/error")
    @requires("read")
    async def error() -> Response:
        return Response(BOMB, 500, headers={"Content-Encoding": "gzip"})

    with served(app) as url:
        yield url


def client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, auth=ServiceCredentials(url, TOKEN), timeout=20)


@pytest.mark.parametrize("path", ["/bomb", "/error"])
def test_compressed_answer_is_not_decompressed(rogue: str, path: str) -> None:
    with client(rogue) as http, pytest.raises(httpx.DecodingError, match="is compressed"):
        http.get(path)


def test_endless_answer_ends_at_the_limit(rogue: str) -> None:
    with client(rogue) as http:
        with pytest.raises(httpx.DecodingError, match=r"has more than 3000000 bytes"):
            http.get("/endless", extensions=at_most(3_000_000))
        with http.stream("GET", "/endless", extensions=IN_PARTS) as answer:
            parts = answer.iter_raw()
            assert sum(len(next(parts)) for _ in range(1000)) > 3_000_000
        assert http.get("/healthz").json() == {"status": "ok"}


async def test_clients_report_that_the_service_does_not_answer(rogue: str) -> None:
    plain = Transport(rogue, token=ServiceCredentials(rogue, TOKEN), attempts=1)
    other = AsyncTransport(rogue, token=ServiceCredentials(rogue, TOKEN), attempts=1)
    for path in ("/bomb", "/endless"):
        call = Call("GET", path, no_answer)
        with pytest.raises(UnavailableError, match="does not answer"):
            plain.send(call)
        with pytest.raises(UnavailableError, match="does not answer"):
            await other.send(call)
    plain.close()
    await other.close()


async def test_error_is_read_up_to_a_limit_where_the_answer_is_read_in_parts(rogue: str) -> None:
    plain = Transport(rogue, token=ServiceCredentials(rogue, TOKEN), attempts=1)
    other = AsyncTransport(rogue, token=ServiceCredentials(rogue, TOKEN), attempts=1)
    call = Call("GET", "/endless?status=500", no_answer)
    async with asyncio.timeout(20):
        with pytest.raises(UnavailableError, match="has more than"), plain.stream(call):
            pass
        with pytest.raises(UnavailableError, match="has more than"):
            async with other.stream(call):
                pass
    plain.close()
    await other.close()


def test_people_may_receive_compressed_answers_of_a_proxy(rogue: str) -> None:
    answer = httpx.get(f"{rogue}/bomb", headers={"Authorization": f"Bearer {TOKEN}"})
    assert len(answer.content) == 2**24
