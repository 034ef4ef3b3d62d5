"""Bodies that are slow, heads that are slow or large, and too many requests at once."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from mistbow.auth.rules import requires
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client.transport import Call, Transport
from mistbow.errors import TooManyRequestsError, UnavailableError
from mistbow.http.limits import count_body
from mistbow.http.protocol import BoundedProtocol
from storage_agent.settings import AgentSettings
from tests.support.certificates import Authority
from tests.support.conditions import eventually
from tests.support.http_server import plain_service, served

# The tests wait for limits of time.
pytestmark = pytest.mark.integration


def service(**settings: Any) -> FastAPI:
    """Return an application that reads bodies of requests, and sends endless answers."""
    app = plain_service(AgentSettings(**settings))
    open_requests: list[int] = []

    @app.post("/body")
    @app.post("/write")
    @app.post("/api/v1/write")
    @app.post("/api/v2/write")
    @requires("ingest")
    async def body(request: Request) -> int:
        length = len(await request.body())
        count_body(request.scope, int(request.headers.get("unpacked", "0")))
        return length

    async def parts(part: bytes) -> AsyncIterator[bytes]:
        open_requests.append(1)
        try:
            while True:
                yield part
                await asyncio.sleep(0.02)
        finally:
            open_requests.pop()

    @app.get("/held")
    @app.get("/streams/held")
    @requires("read")
    async def hold(follow: bool = False) -> StreamingResponse:
        return StreamingResponse(parts(b"."))

    @app.get("/much")
    @requires("read")
    async def much() -> StreamingResponse:
        return StreamingResponse(parts(b"." * 2**20))

    @app.get("/count")
    @requires("read")
    async def count() -> int:
        return len(open_requests)

    return app


def answer_to(url: str, *parts: bytes) -> bytes:
    """Send bytes to a service; return the bytes received until the connection ends."""
    host, port = httpx.URL(url).host, httpx.URL(url).port
    with socket.create_connection((host, port or 0), timeout=10) as connection:
        for part in parts:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_body_that_is_late_is_answered_408() -> None:
    with served(service(body_seconds=0.2)) as url:
        head = (
            b"POST /body HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n"
        )
        answer = answer_to(url, head % 100, b"a few bytes")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"was not received within 0.2 s" in answer
        assert b"MISTBOW_BODY_SECONDS" in answer
        # What comes in time is not touched, and neither is an answer that takes longer.
        assert answer_to(url, head % 5 + b"bytes").endswith(b"\r\n\r\n5")
        with httpx.stream("GET", f"{url}/held") as open_requests:
            assert sum(len(part) for part in islice(open_requests.iter_raw(), 20)) >= 20


def test_body_that_is_too_large_is_answered_413_with_or_without_a_length() -> None:
    with served(service(max_body_bytes=1024)) as url:
        for content in (b"x" * 2000, iter([b"x" * 700] * 3)):
            answer = httpx.post(f"{url}/body", content=content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert httpx.post(f"{url}/body", content=b"x" * 1024).json() == 1024


def test_bodies_of_a_token_are_limited_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """256 bodies of 8 MiB that never end once took 2 GiB."""
    monkeypatch.setattr("mistbow.http.limits._MIN_CONCURRENT_BYTES", 0)
    file = tmp_path / "tokens.json"
    content, token = new_token_file().with_token("slow", frozenset({"ingest"}), "", None)
    write_token_file(file, content)
    limited = service(max_body_bytes=1024, token="of-the-fog", tokens_file=file)  # noqa: S106
    slow, fog = ({"Authorization": f"Bearer {each}"} for each in (token, "of-the-fog"))
    head = (
        f"POST /body HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        "Content-Length: 1024\r\n\r\n"
    )
    with served(limited) as url, contextlib.ExitStack() as stack:
        for _ in range(16):
            address = ("127.0.0.1", httpx.URL(url).port)
            connection = stack.enter_context(socket.create_connection(address))
            connection.sendall(head.encode() + b"x" * 1014)

        def answer(path: str, headers: dict[str, str]) -> httpx.Response:
            return httpx.post(url + path, content=b"x" * 900, headers=headers)

        eventually(lambda: answer("/body", slow).status_code == 429, what="the bodies arrived")
        refused = answer("/body", slow)
        assert "larger than 16384 bytes" in refused.json()["error"]["message"]
        assert answer("/write", slow).status_code == 503
        assert answer("/body", fog).json() == 900
        stack.close()
        eventually(lambda: answer("/body", slow).is_success, what="the bodies are gone")


def test_decompressed_bodies_count_until_their_request_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mistbow.http.limits._MIN_CONCURRENT_BYTES", 0)
    with served(service(max_body_bytes=1024)) as url:
        for unpacked, status in ((16_384, 503), (16_383, 200), (16_383, 200)):
            headers = {"unpacked": str(unpacked)}
            answer = httpx.post(f"{url}/write", content=b"x", headers=headers)
            assert answer.status_code == status


def test_compressed_body_is_answered_415_except_at_paths_of_collectors() -> None:
    compressed = {"Content-Encoding": "gzip"}
    with served(service()) as url:
        refused = httpx.post(f"{url}/body", content=b"x", headers=compressed)
        assert (refused.status_code, refused.json()["error"]["code"]) == (415, "unsupported")
        assert "Content-Encoding" in refused.json()["error"]["message"]
        assert httpx.post(f"{url}/write", content=b"x", headers=compressed).json() == 1
        assert httpx.get(f"{url}/count", headers=compressed).json() == 0
        plain = httpx.post(f"{url}/body", content=b"x", headers={"Content-Encoding": "identity"})
        assert plain.json() == 1


def test_requests_beyond_the_limit_are_answered_429_with_followers_counted_separately() -> None:
    with served(service(max_requests=2, max_followers=1)) as url, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(httpx.stream("GET", f"{url}/held"))
        refused = httpx.get(f"{url}/count")
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert "MISTBOW_MAX_REQUESTS" in refused.text
        # Whoever watches must still be answered, and who follows has places of its own.
        for path in ("/healthz", "/readyz", "/metrics"):
            assert httpx.get(url + path).status_code == 200
        stack.enter_context(httpx.stream("GET", f"{url}/streams/held?follow=true"))
        for yes in ("true", "t", "On"):
            refused = httpx.get(f"{url}/streams/held?follow={yes}")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
            assert "MISTBOW_MAX_FOLLOWERS" in refused.text
        # A request that does not follow is not counted as a follower by its parameters.
        for answer in (httpx.get(f"{url}/held?follow=true"), httpx.post(f"{url}/body?follow=true")):
            assert "MISTBOW_MAX_REQUESTS" in answer.text
        stack.close()
        eventually(lambda: httpx.get(f"{url}/count").is_success, what="places are free again")


def test_requests_of_one_token_leave_the_places_of_other_tokens(tmp_path: Path) -> None:
    file, tokens = tmp_path / "tokens.json", {}
    content = new_token_file()
    for name in ("slow", "other"):
        content, token = content.with_token(name, frozenset({"read"}), "", None)
        tokens[name] = {"Authorization": f"Bearer {token}"}
    write_token_file(file, content)
    limited = service(max_requests=1, token="of-the-fog", tokens_file=file)  # noqa: S106
    fog = {"Authorization": "Bearer of-the-fog"}
    with served(limited) as url, httpx.stream("GET", f"{url}/held", headers=tokens["slow"]):
        refused = httpx.get(f"{url}/count", headers=tokens["slow"])
        assert refused.status_code == 429
        assert "1 concurrent requests of the token slow" in refused.text
        for headers in (tokens["other"], fog):
            assert httpx.get(f"{url}/count", headers=headers).is_success
        # A request that another agent forwards counts for the token of its caller.
        forwarded = httpx.get(f"{url}/count", headers={**fog, "Mistbow-Caller": "slow"})
        assert forwarded.status_code == 429


@pytest.mark.parametrize("path", ["/write", "/api/v1/write", "/api/v2/write"])
def test_collector_gets_a_status_that_it_retries_when_the_service_is_busy(path: str) -> None:
    with served(service(max_requests=1, body_seconds=0.2)) as url:
        with httpx.stream("GET", f"{url}/held"):
            busy = httpx.post(f"{url}{path}", content=b"points")
        assert (busy.status_code, busy.json()["error"]["code"]) == (503, "too_many_requests")
        assert (busy.headers["Retry-After"], busy.headers["Connection"]) == ("1", "close")
        eventually(lambda: httpx.get(f"{url}/count").is_success, what="the place is free again")
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
        slow = answer_to(url, head.encode(), b"a few bytes")
        assert slow.startswith(b"HTTP/1.1 503")
        assert b"slow_request" in slow


def test_client_retries_429_and_raises_other_errors() -> None:
    with served(service(max_requests=1)) as url:
        call = Call("GET", "/count", lambda answer: answer.json(), repeatable=True)
        transport = Transport(url, attempts=2)
        with httpx.stream("GET", f"{url}/held"), pytest.raises(TooManyRequestsError):
            transport.send(call)
        assert eventually(lambda: transport.send(call) == 0)
        transport.close()


class Impatient(BoundedProtocol):
    reader_seconds = 0.3


def test_stalled_reader_is_disconnected_and_frees_its_limit() -> None:
    with served(service(max_requests=1), http=Impatient) as url, socket.socket() as idle:
        idle.connect(("127.0.0.1", httpx.URL(url).port))
        idle.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(15) == b"HTTP/1.1 200 OK"
        eventually(lambda: httpx.get(f"{url}/count").is_success, what="its place is free")
        with contextlib.suppress(ConnectionResetError):
            while idle.recv(2**20):
                pass


class Hasty(BoundedProtocol):
    head_seconds = 0.3


@pytest.mark.parametrize("sent", [b"", b"GET /count HTT", b"GET /count HTTP/1.1\r\nX: y\r\n"])
def test_head_that_is_late_closes_the_connection(sent: bytes) -> None:
    with served(service(), http=Hasty) as url:
        answer = answer_to(url, sent)
        assert answer.startswith(b"HTTP/1.1 408")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "slow_request"


def test_slow_body_of_an_answered_request_closes_the_connection() -> None:
    with served(service(), http=Hasty) as url, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", httpx.URL(url).port or 0)
        slow = stack.enter_context(socket.create_connection(address, timeout=5))
        slow.sendall(b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")
        assert slow.recv(65536).startswith(b"HTTP/1.1 404")
        slow.settimeout(0.05)

        def is_closed() -> bool:
            try:
                slow.sendall(b".")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(is_closed, what="the connection is closed")
        # A body that follows in time leaves the connection to the next request.
        head = b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
        last = b"GET /count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answers = answer_to(url, head, b"body", last)
        assert answers.count(b"HTTP/1.1 404") == answers.count(b"HTTP/1.1 200") == 1


class Crowded(BoundedProtocol):
    max_connections = 16


def test_idle_connections_beyond_the_limit_are_closed_from_the_oldest_on() -> None:
    with served(service(), http=Crowded) as url, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", httpx.URL(url).port or 0)

        def connection(sent: bytes) -> socket.socket:
            opened = stack.enter_context(socket.create_connection(address, timeout=5))
            opened.sendall(sent)
            return opened

        stack.enter_context(httpx.stream("GET", f"{url}/held"))
        body = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nslow"
        idle = [connection(sent) for sent in (b"", b"GET /cou", body) * 20]
        # The stream, which began first, is not idle.
        assert httpx.get(f"{url}/count").json() == 1
        for each in idle[:40]:
            # A request that the server has not read yet makes it reset the connection.
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(100) == b""
        idle[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            idle[-1].recv(1)


@pytest.fixture(scope="module")
def bounded() -> Iterator[str]:
    with served(service(), http=BoundedProtocol) as url:
        yield url


def test_head_that_is_too_large_closes_the_connection(bounded: str) -> None:
    parts = [b"GET /count HTTP/1.1\r\n", *(b"X-%d: %b\r\n" % (i, b"y" * 1000) for i in range(900))]
    with contextlib.suppress(ConnectionError):
        answer = answer_to(bounded, *parts)
        assert b"HTTP/1.1 431" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"
    assert httpx.get(f"{bounded}/count").json() == 0


def test_head_that_is_too_large_in_one_read_is_answered_431(bounded: str) -> None:
    head = b"GET /count HTTP/1.1\r\nHost: localhost\r\nX: %b\r\n\r\n" % (b"y" * 70_000)
    answer = answer_to(bounded, head)
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.startswith(b"HTTP/1.1 431")
    assert httpx.get(f"{bounded}/count").json() == 0


def test_request_for_a_websocket_is_answered_without_advice_in_the_log(
    bounded: str, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    answer = answer_to(bounded, b"GET /count HTTP/1.1\r\nHost: localhost\r\n" + upgrade)
    assert answer.startswith(b"HTTP/1.1 200")
    assert "pip install" not in caplog.text


def test_data_beside_a_request_for_another_protocol_is_no_request(bounded: str) -> None:
    upgrade = (
        b"GET /count HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    )
    last = b"GET /count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", httpx.URL(bounded).port or 0), 10) as connection:
        connection.sendall(upgrade + b"no HTTP" * 1000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(last)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")


def test_body_does_not_count_as_head_of_the_request_that_follows(bounded: str) -> None:
    first = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    last = b"GET /count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answers = answer_to(bounded, first + bytes(100_000) + last[:30], last[30:])
    assert answers.count(b"HTTP/1.1 200") == 2


def test_request_line_that_is_too_long_is_answered_431(bounded: str) -> None:
    answer = answer_to(bounded, b"GET /count?%b HTTP/1.1\r\n\r\n" % (b"x" * 66_000))
    assert answer.startswith(b"HTTP/1.1 431")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"]
)
def test_request_that_is_not_http_gets_an_error_in_the_form_of_all_errors(
    bounded: str, sent: bytes
) -> None:
    head, _, content = answer_to(bounded, sent).partition(b"\r\n\r\n")
    body = json.loads(content)
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert (body["error"]["code"], body["result"]) == ("invalid_request", "ERROR")
    assert body["message"] == body["error"]["message"]


def test_connection_serves_many_requests(bounded: str) -> None:
    with httpx.Client() as client:
        for size in (0, 10, 100_000):
            assert client.post(f"{bounded}/body", content=b"x" * size).json() == size


def test_service_serves_tls_and_clients_verify_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shown = authority.serve("127.0.0.1")
    files: dict[str, Any] = {"ssl_certfile": shown.certificate, "ssl_keyfile": shown.key}
    call = Call("GET", "/count", lambda answer: answer.json())
    with served(service(), **files) as url:
        https = url.replace("http:", "https:")
        trusting = Transport(https, ca=authority.file)
        assert trusting.send(call) == 0
        trusting.close()
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        for ca in (None, Authority(stranger).file):
            with pytest.raises(UnavailableError, match="certificate verify failed"):
                Transport(https, ca=ca).send(call)
        other = https.replace("127.0.0.1", "localhost")
        with pytest.raises(UnavailableError, match="Hostname mismatch"):
            Transport(other, ca=authority.file).send(call)
