"""Following what another site's agent sends for as long as it is reachable: metadata, replicas."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import msgspec

from mistbow.errors import MistbowError, UnavailableError
from mistbow.streams.wire import Chunk
from mistbow.telemetry import get_logger
from storage_agent.fabric.neighbours import Neighbours
from storage_agent.fabric.network import Network, Outgoing

log = get_logger(__name__)

T = TypeVar("T")

_SILENCE_S = 3.0
"""On top of what any answer may take: a followed stream says something each 2 s."""

_PAUSE_S = 0.25


async def keep_following(
    neighbours: Neighbours, site: str, what: str, follow_once: Callable[[], Awaitable[None]]
) -> None:
    """Call ``follow_once`` for ever, whenever there is a way to the site."""
    while True:
        changed = neighbours.changed()
        if not neighbours.reachable(site):
            await changed.wait()
            continue
        try:
            await follow_once()
        except MistbowError as error:
            log.info("not followed", site=site, what=what, error=error.message)
        except Exception as error:
            log.error("not followed", site=site, what=what, exc_info=error)
        await asyncio.sleep(_PAUSE_S)


async def ask(network: Network, site: str, target: bytes, kind: type[T]) -> T:
    """Return what a site's agent answers to a GET, as ``kind``; raises a ``MistbowError``."""
    answer = await network.send(Outgoing(site, "GET", target, wait_s=_SILENCE_S))
    return msgspec.json.decode(await answer.read(), type=kind)


async def chunks_of(network: Network, site: str, target: bytes) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of a stream that is followed; raises ``UnavailableError`` at its end."""
    call = Outgoing(site, "GET", target, wait_s=_SILENCE_S)
    async with aclosing(network.chunks(call)) as chunks:
        async for chunk in chunks:
            yield chunk
    raise UnavailableError(f"what {site} sends broke off")
