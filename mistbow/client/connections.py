"""Connections of HTTP clients to named services, by way of the name resolver of this process.

Only the look-up of the name differs from that of the library: TLS still verifies the name, and the
header ``Host`` still contains it.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

from mistbow.client.answer_time import AnswerTime
from mistbow.name_resolver import NAMES, NameResolver
from mistbow.tls import ReloadedContext

_NEXT_ADDRESS_S = 0.25
"""The pause before a connection to the next address of a name is attempted too (RFC 8305)."""

_PART_BYTES = 16 * 2**10
"""The size of the parts in which a timed connection sends a request."""

_answer_time: ContextVar[AnswerTime | None] = ContextVar("answer_time", default=None)

_Options = Iterable[httpcore.SOCKET_OPTION] | None
_Connect = Callable[[str], Awaitable[httpcore.AsyncNetworkStream]]


def transport(
    tls: ssl.SSLContext, limits: httpx.Limits, names: NameResolver = NAMES
) -> httpx.HTTPTransport:
    """Return a transport for ``httpx.Client``, which uses no proxy of the environment."""
    return _Transport(tls, limits, names)


def async_transport(
    tls: ssl.SSLContext, limits: httpx.Limits, names: NameResolver = NAMES
) -> httpx.AsyncHTTPTransport:
    """Return a transport for ``httpx.AsyncClient``; see ``transport``."""
    return _AsyncTransport(tls, limits, names)


@contextmanager
def answered_within(limit: AnswerTime) -> Iterator[None]:
    """Limit the waits of this thread for services, on connections of ``transport``, to a time.

    Raises ``UnavailableError`` if time is up.
    """
    token = _answer_time.set(limit)
    try:
        with limit.report():
            yield
    finally:
        _answer_time.reset(token)


class _Transport(httpx.HTTPTransport):
    def __init__(self, tls: ssl.SSLContext, limits: httpx.Limits, names: NameResolver) -> None:
        super().__init__(verify=tls, trust_env=False)
        # httpx has no parameter for the network backend of its pool.
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Backend(names),
        )


class _AsyncTransport(httpx.AsyncHTTPTransport):
    def __init__(self, tls: ssl.SSLContext, limits: httpx.Limits, names: NameResolver) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_AsyncBackend(names),
        )


class _Backend(httpcore.NetworkBackend):
    def __init__(self, names: NameResolver) -> None:
        self._names = names
        self._tcp = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: _Options = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that accepts the connection."""
        failure: Exception | None = None
        for address in self._names.resolve(host, timeout):
            try:
                return _TimedStream(
                    self._tcp.connect_tcp(address, port, timeout, local_address, socket_options)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None  # noqa: S101 - there is at least one address
        raise failure


class _TimedStream(httpcore.NetworkStream):
    """A connection whose waits count for the time of ``answered_within``."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if (limit := _answer_time.get()) is None:
            return self._stream.read(max_bytes, timeout)
        with _wait(limit, timeout) as wait_s:
            part = self._stream.read(max_bytes, wait_s)
        limit.add(len(part))
        return part

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if (limit := _answer_time.get()) is None:
            self._stream.write(buffer, timeout)
            return
        for begin in range(0, len(buffer), _PART_BYTES):
            with _wait(limit, timeout) as wait_s:
                self._stream.write(buffer[begin : begin + _PART_BYTES], wait_s)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@contextmanager
def _wait(limit: AnswerTime, timeout: float | None) -> Iterator[float]:
    with limit.count() as left:
        if left == 0:  # To a socket, 0 means not to wait, instead of a timeout.
            raise TimeoutError
        if timeout is not None and timeout < left:
            yield timeout
            return
        try:
            yield left
        except httpcore.TimeoutException as error:
            raise TimeoutError from error


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, names: NameResolver) -> None:
        self._names = names
        self._tcp = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: _Options = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the address of a host that accepts the connection first."""
        begun_at = time.monotonic()
        addresses = await self._names.resolve_async(host, timeout)

        async def connect(address: str) -> httpcore.AsyncNetworkStream:
            left = None if timeout is None else max(0.0, begun_at + timeout - time.monotonic())
            stream = await self._tcp.connect_tcp(address, port, left, local_address, socket_options)
            return _AsyncStream(stream)

        if len(addresses) == 1:
            return await connect(addresses[0])
        return await _connect_first(addresses, connect)


class _AsyncStream(httpcore.AsyncNetworkStream):
    """A connection whose TLS begins without a thread: long reads may use all threads.

    AnyIO uses a thread for each subclass of ``ssl.SSLContext``.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        tls = ssl_context.fresh() if isinstance(ssl_context, ReloadedContext) else ssl_context
        return await self._stream.start_tls(tls, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _connect_first(
    addresses: Sequence[str], connect: _Connect
) -> httpcore.AsyncNetworkStream:
    """Connect to each address soon after the former one; return the first connection."""

    async def attempt(address: str) -> httpcore.AsyncNetworkStream:
        return await connect(address)

    untried = deque(addresses)
    attempts: list[asyncio.Task[httpcore.AsyncNetworkStream]] = []
    winner = failed = None
    try:
        while untried or not all(task.done() for task in attempts):
            if untried:
                attempts.append(asyncio.create_task(attempt(untried.popleft())))
            running = [task for task in attempts if not task.done()]
            done, _ = await asyncio.wait(
                running,
                timeout=_NEXT_ADDRESS_S if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                if task.exception() is None:
                    winner = task
                    return task.result()
                failed = task.exception()
        # The last failure: a timeout is more informative than a refusal before it.
        assert failed is not None  # noqa: S101 - there is at least one address
        raise failed
    finally:
        await _discard([task for task in attempts if task is not winner])


async def _discard(attempts: list[asyncio.Task[httpcore.AsyncNetworkStream]]) -> None:
    for task in attempts:
        task.cancel()
    if attempts:
        await asyncio.wait(attempts)
    for task in attempts:
        if not task.cancelled() and task.exception() is None:
            await task.result().aclose()
