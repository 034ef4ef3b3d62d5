"""Cancels the work for a request when its client disconnects before the answer begins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from mistbow.runtime.tasks import cancel_and_wait

F = TypeVar("F", bound=Callable[..., object])

Answer = Callable[[Request], Awaitable[Response]]

_ONLY_READS = "_only_reads"

NOBODY_WAITS = 499
"""The status of an answer that is not sent, since its client has disconnected."""

_QUICK_S = 0.02
"""The time (s) for which the connection is not watched: most work ends earlier."""


def only_reads(endpoint: F) -> F:
    """Declare that an endpoint of ``proxied_router`` is cancelled when its client disconnects.

    A request that is forwarded to another site is cancelled there, too.
    """
    setattr(endpoint, _ONLY_READS, True)
    return endpoint


def is_only_reading(endpoint: Callable[..., object]) -> bool:
    """Return whether an endpoint was declared by ``only_reads``."""
    return getattr(endpoint, _ONLY_READS, False)


@asynccontextmanager
async def cancelled_at_disconnect(receive: Receive) -> AsyncIterator[None]:
    """Cancel the work within the ``with`` if the client disconnects; raise ``ClientDisconnect``.

    Suits work that only reads: a cancelled write may be stored or not. ``receive``: returns the
    messages of the request, whose body was read before.
    """
    loop = asyncio.get_running_loop()
    watching: list[asyncio.Task[None]] = []

    async def watch(connected: asyncio.Timeout) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        connected.reschedule(loop.time())

    def start(connected: asyncio.Timeout) -> None:
        watching.append(loop.create_task(watch(connected), name="watch the client's connection"))

    connected = asyncio.timeout(None)
    starting = loop.call_later(_QUICK_S, start, connected)
    try:
        async with connected:
            yield
    except TimeoutError as error:
        if connected.expired():
            raise ClientDisconnect from error
        raise
    finally:
        starting.cancel()
        await cancel_and_wait(watching)


async def answer_while_connected(request: Request, answer: Answer) -> Response:
    """Return the answer to a request; cancel ``answer`` if the client disconnects before.

    Suits requests that only read: a cancelled write may be stored or not. ``answer`` receives a
    request with the same body, which it may read once more.
    """
    unread = [await request.body()]

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        never: asyncio.Future[Message] = asyncio.Future()
        return await never  # a disconnect cancels the caller

    try:
        async with cancelled_at_disconnect(request.receive):
            return await answer(Request(request.scope, receive))
    except ClientDisconnect:
        return Response(status_code=NOBODY_WAITS)
