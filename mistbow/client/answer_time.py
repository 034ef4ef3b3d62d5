"""The time that a service has to answer a request.

A timeout of each read alone does not end an answer that arrives byte by byte. So a stolen service
could delay a request for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar, cast

import httpx

from mistbow.errors import UnavailableError

T = TypeVar("T")

MIN_BYTES_PER_S = 16 * 2**10
"""The minimum rate of requests and answers that take longer than the time of an answer.

It is an eighth of a link with 1 Mbit/s, which several large answers may share.
"""

MAX_ANSWER_S = 1200.0
"""The maximum time (s) that a request waits for its answer.

The largest answer (128 MiB) takes 18 minutes over a link with 1 Mbit/s.
"""


class AnswerTime:
    """The remaining time of a request to a service; it grows with the bytes of the answer.

    ``service``: the name of the service, for errors. ``seconds``: the time until the headers of the
    answer, without the time that ``size``, the bytes of the request, take at the minimum rate.
    ``body_s``: the minimum time after the headers. ``max_s``: the maximum time of the request. Only
    the waits for the service count, not the work of the reader between them.
    """

    def __init__(
        self,
        service: str,
        seconds: float,
        body_s: float,
        max_s: float = MAX_ANSWER_S,
        *,
        size: int = 0,
    ) -> None:
        self._service = service
        self._body_s = body_s
        self._max = max_s
        self._left = min(seconds + size / MIN_BYTES_PER_S, max_s)

    async def wait(self, answer: Awaitable[T]) -> T:
        """Wait for an answer or for a part of it; raises ``UnavailableError`` if time is up."""
        with self.report(), self.count() as left:
            async with asyncio.timeout(left):
                return await answer

    @contextmanager
    def report(self) -> Iterator[None]:
        """Raise a ``TimeoutError`` of the ``with`` block as ``UnavailableError``."""
        try:
            yield
        except TimeoutError as error:
            raise UnavailableError(
                f"{self._service} answers too slowly", hint="Try again later."
            ) from error

    @contextmanager
    def count(self) -> Iterator[float]:
        """Count the ``with`` block as a wait for the service; yield its maximum duration (s)."""
        began = monotonic()
        try:
            yield max(0.0, self._left)
        finally:
            waited = monotonic() - began
            self._left -= waited
            self._max -= waited

    def begin_body(self) -> None:
        """Leave at least ``body_s`` for the body, after the headers have arrived."""
        self._left = min(max(self._left, self._body_s), self._max)

    def add(self, size: int) -> None:
        """Extend the time by that of ``size`` received bytes at the minimum rate."""
        self._left = min(self._left + size / MIN_BYTES_PER_S, self._max)


async def send_within(
    time: AnswerTime, client: httpx.AsyncClient, request: httpx.Request
) -> httpx.Response:
    """Send a request, and return the answer, whose body is not read yet; ``time`` limits both.

    Raises ``UnavailableError`` if time is up; so does a later read of the body.
    """
    response = await time.wait(client.send(request, stream=True))
    time.begin_body()
    if not response.is_stream_consumed:
        response.stream = _Timed(cast("httpx.AsyncByteStream", response.stream), time)
    return response


async def read_within(
    time: AnswerTime, client: httpx.AsyncClient, request: httpx.Request
) -> httpx.Response:
    """Send a request, and return the answer with its body; see ``send_within``."""
    response = await send_within(time, client, request)
    try:
        await response.aread()
    finally:
        await response.aclose()
    return response


class _Timed(httpx.AsyncByteStream):
    """A stream of bytes that ends with an error if the sender is too slow."""

    def __init__(self, stream: httpx.AsyncByteStream, time: AnswerTime) -> None:
        self._stream = stream
        self._time = time

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._stream)
        while (part := await self._time.wait(anext(parts, None))) is not None:
            self._time.add(len(part))
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
