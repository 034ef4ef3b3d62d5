"""Cancels the work for a request when its client disconnects before the answer begins."""

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.types import Message

from mistbow.runtime.tasks import cancel_and_wait

Answer = Callable[[Request], Awaitable[Response]]

_NOBODY_WAITS = 499
"""The status of an answer that is not sent, since its client has disconnected."""


async def answer_while_connected(request: Request, answer: Answer) -> Response:
    """Return the answer to a request; cancel ``answer`` if the client disconnects before.

    Suits requests that only read: a cancelled write may be stored or not. ``answer`` receives a
    request with the same body, which it may read once more.
    """
    body = await request.body()
    gone = asyncio.Event()
    unread = [body]

    async def receive() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async def work() -> Response:
        return await answer(Request(request.scope, receive))

    watching = asyncio.create_task(watch(), name="watch the client's connection")
    working = asyncio.create_task(work(), name=f"answer {request.url.path}")
    try:
        await asyncio.wait((watching, working), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else Response(status_code=_NOBODY_WAITS)
    finally:
        await cancel_and_wait([watching, working])
