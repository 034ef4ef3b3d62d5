"""Methods that are written once for the sync and the async client.

A function builds a call from the method's arguments. ``Method`` turns this function into a method:
on a ``Client``, the method sends the call and returns the answer; on an ``AsyncClient``, the method
returns a coroutine with the answer. ``StreamMethod`` does the same for an answer that is read item
by item. ``PagedMethod`` does the same for an answer that is read page by page.
``ResumableMethod`` does the same for an answer that is read item by item, and requested
again after each break of the connection.

>>> def ping(text: str) -> Call[str]:
...     return Call("GET", "/ping", lambda response: response.text, params={"text": text})
>>> class PingMethods:
...     ping = Method(ping)
>>> class PingClient(PingMethods, Client): ...
>>> class AsyncPingClient(PingMethods, AsyncClient): ...
>>> PingClient.ping("hello").params
{'text': 'hello'}
"""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, overload

import httpx
from httpx_sse import EventSource, ServerSentEvent

from mistbow.client.service_client import Token
from mistbow.client.transport import MAX_CONNECTIONS, AsyncTransport, Call, Transport
from mistbow.errors import MistbowError, UnavailableError
from mistbow.streams.wire import Chunk, ChunkDecoder
from mistbow.tls import TlsFiles

P = ParamSpec("P")
B = TypeVar("B")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MAX_SILENCE_S = 30.0
"""The time-out (s) for the next part of a followed stream; the agent sends a heartbeat every 2 s.
"""

_RECONNECT_S = 1.0
"""The pause (s) before a resumable answer is requested again."""


class ItemFormat(Protocol[T_co]):
    """Decodes the items of a streamed answer."""

    def read(self, response: httpx.Response) -> Iterator[T_co]:
        """Yield the items of an answer of a sync client."""
        ...

    def aread(self, response: httpx.Response) -> AsyncIterator[T_co]:
        """Yield the items of an answer of an async client."""
        ...


class ArrowChunks:
    """Decodes chunks of rows in Arrow's stream format."""

    def read(self, response: httpx.Response) -> Iterator[Chunk]:
        """Yield the chunks of an answer of a sync client."""
        decoder = ChunkDecoder()
        for data in response.iter_bytes():
            yield from decoder.feed(data)

    async def aread(self, response: httpx.Response) -> AsyncIterator[Chunk]:
        """Yield the chunks of an answer of an async client."""
        decoder = ChunkDecoder()
        async for data in response.aiter_bytes():
            for chunk in decoder.feed(data):
                yield chunk


@dataclass(frozen=True, slots=True)
class ServerSentEvents(Generic[T]):
    """Decodes server-sent events.

    ``parse`` returns the item of an event; None: the event has no item.
    """

    parse: Callable[[ServerSentEvent], T | None]

    def read(self, response: httpx.Response) -> Iterator[T]:
        """Yield the items of an answer of a sync client."""
        for event in EventSource(response).iter_sse():
            if (item := self.parse(event)) is not None:
                yield item

    async def aread(self, response: httpx.Response) -> AsyncIterator[T]:
        """Yield the items of an answer of an async client."""
        async for event in EventSource(response).aiter_sse():
            if (item := self.parse(event)) is not None:
                yield item


@dataclass(frozen=True, slots=True)
class StreamCall(Generic[T]):
    """A request whose answer is read item by item.

    A repeatable request is sent again while no item has arrived and the service is overloaded or
    unavailable. ``name``: the name of the answer in the error that is raised when the connection
    breaks. ``max_silence_s``: the time-out (s) for the next part of the answer. ``has_end``:
    whether the answer has an end; False: an end is an interruption.
    """

    call: Call[None]
    items: ItemFormat[T]
    name: str
    max_silence_s: float = _MAX_SILENCE_S
    has_end: bool = False

    def broken(self) -> UnavailableError:
        """Return the error to raise when the answer was interrupted."""
        return UnavailableError(
            f"{self.name} was interrupted", hint="Continue at the last position."
        )


class ResumableAnswer(Protocol[T]):
    """A streamed answer that is requested again after each break of the connection."""

    def stream(self) -> StreamCall[T]:
        """Return the request for the items after the last item that was read."""
        ...

    def connect(self) -> None:
        """Record that the service has accepted a request."""
        ...

    def is_over(self, error: MistbowError) -> bool:
        """Return whether ``error`` means that the answer has ended; False: request the rest again.

        Raises ``error`` if another request would fail too.
        """
        ...


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of items; ``next``: the cursor of the next page; None: this is the last page."""

    items: Sequence[T]
    next: str | None


@dataclass(frozen=True, slots=True)
class PagedCall(Generic[T]):
    """A request whose answer is read page by page.

    ``request``: returns the call for the page at a cursor; None: the first page.
    """

    request: Callable[[str | None], Call[Page[T]]]


class Sender:
    """Sends calls and waits for the answers.

    ``site``: the site whose agent answers; None: the service that receives a call answers.
    """

    def __init__(self, transport: Transport, site: str | None = None) -> None:
        self._transport = transport
        self._site = site

    def _send(self, call: Call[T]) -> T:
        return self._transport.send(call.at(self._site))

    def _follow(self, stream: StreamCall[T]) -> Iterator[T]:
        for attempt in self._transport.attempts(stream.call):
            with attempt:
                items = self._read(stream)
                first = list(islice(items, 1))
        with closing(items):
            yield from first
            yield from items
        if not stream.has_end:
            raise stream.broken()

    def _read(self, stream: StreamCall[T]) -> Generator[T, None, None]:
        with self._open(stream) as response:
            yield from stream.items.read(response)

    def _subscribe(self, answer: ResumableAnswer[T]) -> Iterator[T]:
        while True:
            stream = answer.stream()
            try:
                with self._open(stream) as response:
                    answer.connect()
                    yield from stream.items.read(response)
            except MistbowError as error:
                if answer.is_over(error):
                    return
            time.sleep(_RECONNECT_S)

    def _iterate(self, paged: PagedCall[T]) -> Iterator[T]:
        cursor = None
        while True:
            page = self._send(paged.request(cursor))
            yield from page.items
            if (cursor := page.next) is None:
                return

    def _open(self, stream: StreamCall[Any]) -> AbstractContextManager[httpx.Response]:
        call = stream.call.at(self._site)
        return self._transport.stream(call, read_timeout=stream.max_silence_s)


class AsyncSender:
    """Sends calls from coroutines; see ``Sender``."""

    def __init__(self, transport: AsyncTransport, site: str | None = None) -> None:
        self._transport = transport
        self._site = site

    async def _send(self, call: Call[T]) -> T:
        return await self._transport.send(call.at(self._site))

    async def _follow(self, stream: StreamCall[T]) -> AsyncGenerator[T, None]:
        async for attempt in self._transport.attempts(stream.call):
            with attempt:
                items = self._read(stream)
                first = await anext(items, None)
        async with aclosing(items):
            if first is not None:
                yield first
            async for item in items:
                yield item
        if not stream.has_end:
            raise stream.broken()

    async def _read(self, stream: StreamCall[T]) -> AsyncGenerator[T, None]:
        async with self._open(stream) as response:
            async for item in stream.items.aread(response):
                yield item

    async def _subscribe(self, answer: ResumableAnswer[T]) -> AsyncGenerator[T, None]:
        while True:
            stream = answer.stream()
            try:
                async with self._open(stream) as response:
                    answer.connect()
                    async for item in stream.items.aread(response):
                        yield item
            except MistbowError as error:
                if answer.is_over(error):
                    return
            await asyncio.sleep(_RECONNECT_S)

    async def _iterate(self, paged: PagedCall[T]) -> AsyncGenerator[T, None]:
        cursor = None
        while True:
            page = await self._send(paged.request(cursor))
            for item in page.items:
                yield item
            if (cursor := page.next) is None:
                return

    def _open(self, stream: StreamCall[Any]) -> AbstractAsyncContextManager[httpx.Response]:
        call = stream.call.at(self._site)
        return self._transport.stream(call, read_timeout=stream.max_silence_s)


class Client(Sender):
    """A sync client of a service, which has connections of its own."""

    def __init__(
        self,
        url: str,
        token: Token = None,
        *,
        attempts: int = 3,
        ca: Path | str | TlsFiles | None = None,
    ) -> None:
        super().__init__(Transport(url, token=token, attempts=attempts, ca=ca))

    @property
    def url(self) -> str:
        """The service's address."""
        return self._transport.url

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


class AsyncClient(AsyncSender):
    """An async client of a service, which has connections of its own."""

    def __init__(
        self,
        url: str,
        token: Token = None,
        *,
        attempts: int = 3,
        ca: Path | str | TlsFiles | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        super().__init__(
            AsyncTransport(
                url, token=token, attempts=attempts, ca=ca, max_connections=max_connections
            )
        )

    @property
    def url(self) -> str:
        """The service's address."""
        return self._transport.url

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


class _Descriptor(Generic[P, B]):
    """The base of descriptors that turn the function ``build`` into a method of a client.

    The method passes the result of ``build`` to the client's method whose name is ``sender``.
    Accessed on a class instead of an instance, the descriptor returns ``build`` itself.
    """

    sender: ClassVar[str]

    def __init__(self, build: Callable[P, B]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def _bind(self, client: Sender | AsyncSender | None) -> Callable[P, Any]:
        if client is None:
            return self._build
        send = getattr(client, self.sender)

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return send(self._build(*args, **kwargs))

        return method


class Method(_Descriptor[P, Call[T]]):
    """A descriptor of a method that sends a call and returns the answer."""

    sender = "_send"

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Call[T]]: ...
    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Sender | AsyncSender | None, owner: type) -> Callable[P, Any]:
        return self._bind(client)


class StreamMethod(_Descriptor[P, StreamCall[T]]):
    """A descriptor of a method that yields the items of an answer.

    The method raises ``UnavailableError`` when the answer is interrupted.
    """

    sender = "_follow"

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, StreamCall[T]]: ...
    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...

    def __get__(self, client: Sender | AsyncSender | None, owner: type) -> Callable[P, Any]:
        return self._bind(client)


class PagedMethod(_Descriptor[P, PagedCall[T]]):
    """A descriptor of a method that yields the items of an answer, which is read page by page."""

    sender = "_iterate"

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, PagedCall[T]]: ...
    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...

    def __get__(self, client: Sender | AsyncSender | None, owner: type) -> Callable[P, Any]:
        return self._bind(client)


class ResumableMethod(_Descriptor[P, ResumableAnswer[T]]):
    """A descriptor of a method that yields the items of a resumable answer until the answer is
    over.
    """

    sender = "_subscribe"

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, ResumableAnswer[T]]: ...
    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...

    def __get__(self, client: Sender | AsyncSender | None, owner: type) -> Callable[P, Any]:
        return self._bind(client)
