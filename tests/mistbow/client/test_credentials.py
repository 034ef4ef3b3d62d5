"""Requests between services: who receives what, and which requests a service accepts."""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from pydantic import SecretStr

from ignite_server.ports import free_ports
from mistbow.auth.authentication import caller_headers
from mistbow.auth.callers import Caller, current_caller
from mistbow.auth.rules import requires
from mistbow.auth.service_key import ServiceKey
from mistbow.client.credentials import ServiceCredentials
from mistbow.client.transport import AsyncTransport, Call, Transport, json_of
from mistbow.errors import ForbiddenError, MistbowError, UnavailableError
from mistbow.settings import ServiceSettings
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served
from tests.support.recorder import Recorder

# The tests send requests for seconds.
pytestmark = pytest.mark.integration

TOKEN = "the-token-of-the-fog"  # noqa: S105 - of these tests only
Answer = dict[str, str]


def service(home: Path, token: str | None = TOKEN, own_urls: str = "") -> FastAPI:
    """Return a service that answers who calls, and what it receives."""

    settings = ServiceSettings.model_validate({"home": home, "token": token, "own_urls": own_urls})
    app = plain_service(settings)

    @app.post("/echo")
    @requires("admin", by_entity=True)
    async def echo(request: Request) -> Answer:
        caller = current_caller()
        body = (await request.body()).decode()
        return {"name": caller.name, "prefix": caller.entity_prefix, "body": body}

    @app.post("/inner")
    @requires("join")
    async def inner() -> Answer:
        return {}

    return app


def echo(body: bytes = b"hello", *, caller: Caller | None = None) -> Call[Answer]:
    headers = {} if caller is None else caller_headers(caller)
    return Call(
        "POST", "/echo", json_of(Answer), content=body, headers=headers, params={"a": "b c"}
    )


def transport(url: str, token: str = TOKEN) -> Transport:
    return Transport(url, token=ServiceCredentials(url, token), attempts=1)


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with served(service(tmp_path)) as url:
        yield url


def test_signed_requests_have_the_rights_of_the_fog(url: str) -> None:
    client = transport(url)
    for body in (b"hello", b"", b"x" * 3_000_000):
        found = client.send(echo(body))
        assert found == {"name": "of the fog", "prefix": "", "body": body.decode()}
    bus = Caller("bus", frozenset(), "bus-")
    assert client.send(echo(caller=bus)) == {"name": "bus", "prefix": "bus-", "body": "hello"}
    client.close()


async def test_concurrent_requests_are_accepted(url: str) -> None:
    client = AsyncTransport(url, token=ServiceCredentials(url, TOKEN), attempts=1)
    answers = await asyncio.gather(*(client.send(echo(str(n).encode())) for n in range(50)))
    assert [answer["body"] for answer in answers] == [str(n) for n in range(50)]
    await client.close()


def test_session_is_renewed_after_a_restart_of_the_service(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with served(service(tmp_path), port) as url:
        client = transport(url)
        client.send(echo())
    with served(service(tmp_path), port):
        # Large: the answer 401 arrives although the body was not read.
        assert len(client.send(echo(b"x" * 3_000_000))["body"]) == 3_000_000
    client.close()


def test_bearer_token_is_still_accepted(url: str) -> None:
    client = Transport(url, token=TOKEN)
    assert client.send(echo())["name"] == "of the fog"
    client.close()


def test_credentials_do_not_follow_a_redirect(tmp_path: Path) -> None:
    app = service(tmp_path)
    with Recorder() as listener, served(app) as url:

        @app.post("/moved")
        @requires("admin")
        async def moved() -> RedirectResponse:
            return RedirectResponse(f"{listener.url}/echo")

        for credentials in (TOKEN, ServiceCredentials(url, TOKEN)):
            client = Transport(url, token=credentials, attempts=1)
            with pytest.raises(MistbowError, match="status 307"):
                client.send(Call("POST", "/moved", json_of(Answer), content=b"a secret"))
            client.close()
        assert listener.connections == []


def test_forwarded_caller_is_no_service(url: str) -> None:
    call = Call("POST", "/inner", json_of(Answer))
    forwarded = Call(
        "POST", "/inner", json_of(Answer), headers=caller_headers(Caller("op", frozenset()))
    )
    client = transport(url)
    assert client.send(call) == {}
    with pytest.raises(ForbiddenError, match="services of the fog only; the token op"):
        client.send(forwarded)
    client.close()


def test_service_with_another_token_receives_nothing(tmp_path: Path) -> None:
    with served(service(tmp_path, token=TOKEN[1:])) as url, Recorder(port_of(url)) as recorder:
        assert_refuses(recorder, "another service key")
    with served(service(tmp_path, token=None)) as url, Recorder(port_of(url)) as recorder:
        assert_refuses(recorder, "another service key")


def test_listener_receives_only_a_challenge() -> None:
    with Recorder() as listener:
        assert_refuses(listener, "the service answered with status 404")


def test_relay_of_the_challenge_receives_nothing(url: str) -> None:
    # The relay passes everything on to a real service, at whose address it is not.
    with Recorder(port_of(url)) as relay:
        assert_refuses(relay, f"{relay.url} is not an address of this service")


def test_relay_at_a_default_address_receives_nothing(tmp_path: Path) -> None:
    # A listener takes the place of an agent on another machine, and passes its challenge on.
    settings = AgentSettings(home=tmp_path, token=SecretStr(TOKEN), ignite_port=1)
    challenge = ServiceKey(TOKEN).challenge("0" * 32, settings.agent_url)
    with served(create_app(settings)) as url:
        assert url != settings.agent_url
        answer = httpx.post(f"{url}/challenge", content=msgspec.json.encode(challenge))
        assert answer.status_code == 421


def assert_refuses(recorder: Recorder, reason: str) -> None:
    """Check that a client sends a challenge without the token, and nothing else."""
    client = transport(recorder.url)
    with pytest.raises(UnavailableError, match=re.escape(reason)):
        client.send(echo(b"a secret"))
    client.close()
    assert recorder.requests() == [b"POST /challenge HTTP/1.1"]
    assert b"secret" not in recorder.received
    assert b"uthorization" not in recorder.received
    assert TOKEN.encode() not in recorder.received
    assert len(recorder.received) < 700


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 135\r\n\r\n"
        b'{"nonce":"' + b"0" * 32 + b'","lifetime_s":600,"mac":"' + b"0" * 64 + b'"}   ',
    ],
)
def test_answer_without_proof_is_rejected(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        async def ask() -> None:
            client = AsyncTransport(url, token=ServiceCredentials(url, TOKEN), attempts=1)
            with pytest.raises(UnavailableError, match="did not prove"):
                await client.send(echo())
            await client.close()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(answer)
                connection.recv(1)

        async def both() -> None:
            await asyncio.gather(ask(), asyncio.to_thread(serve))

        asyncio.run(both())


def test_replayed_and_altered_requests_are_rejected(tmp_path: Path) -> None:
    [port] = free_ports(1)
    # The recorder's address is one of the service: it stands for a listener on the network.
    with Recorder(port) as recorder, served(service(tmp_path, own_urls=recorder.url), port):
        client = transport(recorder.url)
        client.send(echo(caller=Caller("bus", frozenset(), "bus-")))
        client.close()
        assert TOKEN.encode() not in recorder.received
        assert b"Bearer" not in recorder.received
        recorded = bytes(recorder.received)
        request = recorded[recorded.index(b"POST /echo") :]
        assert request.endswith(b"\r\n\r\nhello")
        unused = request.replace(b"number=1,", b"number=2,")
        for sent in (
            request,
            unused,
            unused.replace(b"hello", b"olleh"),
            unused.replace(b"a=b", b"a=c"),
            re.sub(rb"(?i)mistbow-entity-prefix: [^\r]*\r\n", b"", unused),
        ):
            assert status_of(port, sent) == 401, sent


def test_body_that_is_altered_on_the_way_is_rejected(tmp_path: Path) -> None:
    [port] = free_ports(1)
    with Recorder(port) as recorder, served(service(tmp_path, own_urls=recorder.url), port):
        credentials = ServiceCredentials(recorder.url, TOKEN)
        with httpx.Client(base_url=recorder.url, auth=credentials) as client:
            client.post("/echo", content=b"hello").raise_for_status()
            request = client.build_request("POST", "/echo", content=b"hello")
            flow = credentials.sync_auth_flow(request)
            signed = next(flow)
            lines = [f"{name}: {value}" for name, value in signed.headers.items()]
            head = "\r\n".join(["POST /echo HTTP/1.1", *lines, "", ""]).encode()
            assert status_of(port, head + b"olleh") == 401
            # The number is used now.
            assert status_of(port, head + b"hello") == 401


def status_of(port: int, request: bytes) -> int:
    """Send a request as bytes; return the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        return int(connection.recv(10_000).split()[1])


def test_challenge_that_is_malformed_is_rejected(url: str) -> None:
    for body in (b"", b"{}", b"[" * 1000, b"\xff", b'{"nonce":"x"}'):
        assert httpx.post(f"{url}/challenge", content=body).status_code == 400
    assert httpx.post(f"{url}/challenge", content=b" " * 5000).status_code == 413


def test_malformed_signature_is_rejected(url: str) -> None:
    for value in ("Mistbow", "Mistbow x", "Mistbow session=1, number=2, body=3, mac=4"):
        answer = httpx.post(f"{url}/echo", headers={"Authorization": value})
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Mistbow"


def test_fog_without_token_needs_the_challenge_only(tmp_path: Path) -> None:
    with served(service(tmp_path, token=None)) as url:
        client = transport(url, "")
        assert client.send(echo())["name"] == "of the fog"
        client.close()
    with Recorder() as listener:
        client = transport(listener.url, "")
        with pytest.raises(MistbowError, match="did not prove"):
            client.send(echo(b"a secret"))
        assert listener.requests() == [b"POST /challenge HTTP/1.1"]
        client.close()
