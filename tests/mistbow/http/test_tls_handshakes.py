"""TLS handshakes count towards the limit on connections, and end in time."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Response

from mistbow.http.protocol import BoundedProtocol
from mistbow.tls import TlsFiles, client_context
from tests.support.certificates import Authority
from tests.support.http_server import served

pytestmark = pytest.mark.integration

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

LARGE = 32 * 2**20


class Crowded(BoundedProtocol):
    max_connections = 16


class Hasty(BoundedProtocol):
    head_seconds = 0.3


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def service(
    authority: Authority, loop: str, http: type[BoundedProtocol]
) -> Iterator[tuple[str, int]]:
    """Serve an application with TLS; yield the host and the port."""
    app = FastAPI()

    @app.get("/")
    def root() -> str:
        return "served"

    @app.get("/large")
    def large() -> Response:
        return Response(bytes(LARGE))

    files = authority.serve("127.0.0.1")
    tls = TlsFiles(None, files.certificate, files.key)
    with served(app, tls=tls, http=http, loop=loop) as url:
        yield "127.0.0.1", httpx.URL(url).port or 0


def hello(context: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Begin a handshake; return it, with the bytes from the server and those to the server."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    begun = context.wrap_bio(received, sent, server_hostname="127.0.0.1")
    with suppress(ssl.SSLWantReadError):
        begun.do_handshake()
    return begun, received, sent


def is_closed(connection: socket.socket) -> bool:
    """Return whether the server closes a connection within 5 s; data before that is ignored."""
    connection.settimeout(5)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_handshakes_beyond_the_limit_are_closed_from_the_oldest_on(
    authority: Authority, loop: str
) -> None:
    context = client_context(authority.file)
    with service(authority, loop, Crowded) as at, ExitStack() as stack:
        opened = []
        for number in range(60):
            each = stack.enter_context(socket.create_connection(at, timeout=5))
            if number % 2:
                each.sendall(hello(context)[2].read())
            opened.append(each)
        assert httpx.get(f"https://127.0.0.1:{at[1]}", verify=context).json() == "served"
        assert all(map(is_closed, opened[:40]))
        opened[-2].setblocking(False)
        with pytest.raises(BlockingIOError):
            opened[-2].recv(1)


def test_idle_connections_with_tls_are_closed_though_their_clients_do_not_confirm(
    authority: Authority, loop: str
) -> None:
    context = client_context(authority.file)
    with service(authority, loop, Crowded) as at, ExitStack() as stack:
        opened = []
        for _ in range(40):
            plain = stack.enter_context(socket.create_connection(at, timeout=5))
            encrypted = context.wrap_socket(plain, server_hostname="127.0.0.1")
            opened.append(stack.enter_context(socket.socket(fileno=encrypted.detach())))
        assert all(map(is_closed, opened[:20]))
        assert httpx.get(f"https://127.0.0.1:{at[1]}", verify=context).json() == "served"


@pytest.mark.parametrize("sent", [0, 5, 100], ids=["nothing", "a-few-bytes", "half-a-message"])
def test_handshake_that_is_late_closes_the_connection(
    authority: Authority, loop: str, sent: int
) -> None:
    first = hello(client_context(authority.file))[2].read()
    with service(authority, loop, Hasty) as at, socket.create_connection(at) as slow:
        slow.sendall(first[:sent])
        assert is_closed(slow)


def test_invalid_handshake_closes_the_connection(authority: Authority, loop: str) -> None:
    with service(authority, loop, BoundedProtocol) as at, socket.create_connection(at) as plain:
        plain.sendall(REQUEST)
        assert is_closed(plain)


def test_request_beside_the_last_message_of_the_handshake_is_answered(
    authority: Authority, loop: str
) -> None:
    begun, received, sent = hello(client_context(authority.file))
    with service(authority, loop, BoundedProtocol) as at:
        with socket.create_connection(at, timeout=5) as connection:
            connection.sendall(sent.read())
            while True:
                received.write(connection.recv(65_536))
                with suppress(ssl.SSLWantReadError):
                    begun.do_handshake()
                    break
            begun.write(REQUEST)
            connection.sendall(sent.read())
            answer = b""
            while b"served" not in answer:
                received.write(connection.recv(65_536))
                with suppress(ssl.SSLWantReadError):
                    answer += begun.read(65_536)
        assert answer.startswith(b"HTTP/1.1 200")


def test_server_stops_during_a_handshake(authority: Authority, loop: str) -> None:
    with ExitStack() as stack:
        with service(authority, loop, BoundedProtocol) as at:
            waiting = stack.enter_context(socket.create_connection(at))
            waiting.sendall(hello(client_context(authority.file))[2].read())
            assert waiting.recv(1)
        assert is_closed(waiting)


def test_server_stops_without_waiting_for_an_idle_client(
    authority: Authority, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    with httpx.Client(verify=client_context(authority.file)) as client:
        with service(authority, loop, BoundedProtocol) as (host, port):
            assert client.get(f"https://{host}:{port}/").text == '"served"'
        assert "timeout graceful shutdown exceeded" not in caplog.text


def test_client_receives_the_rest_of_an_answer_from_a_server_that_stops(
    authority: Authority, loop: str
) -> None:
    url = httpx.URL(path="/large")
    with httpx.Client(verify=client_context(authority.file)) as client, ExitStack() as server:
        host, port = server.enter_context(service(authority, loop, BoundedProtocol))
        with client.stream("GET", url.copy_with(scheme="https", host=host, port=port)) as answer:
            chunks = answer.iter_raw()
            received = len(next(chunks))
            with ThreadPoolExecutor(1) as pool:
                stopped = pool.submit(server.close)
                received += sum(map(len, chunks))
                stopped.result()
    assert received == LARGE
