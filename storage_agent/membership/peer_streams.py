"""Reads and follows streams of a peer: metadata for membership, rows for replicas."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import msgspec

from mistbow.errors import MistbowError, UnavailableError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.streams.wire import Chunk
from mistbow.telemetry import get_logger
from storage_agent.membership.network import PeerNetwork, PeerRequest
from storage_agent.membership.peers import Peers

log = get_logger(__name__)

T = TypeVar("T")

_SILENCE_S = 3.0
"""The seconds that are added to the timeout of an answer.

A followed stream sends a chunk every 2 s.
"""

_MAX_FETCHED_BYTES = 8 * 2**20

_RETRY_S = 0.25
_MAX_RETRY_S = 5.0
"""The maximum pause (s) between two reads of a site that sends nothing; the pauses are doubled."""

FollowOnce = Callable[[Callable[[], None]], Awaitable[None]]
"""A function that follows a stream until an error; it calls its argument for each chunk."""


async def follow_while_reachable(
    peers: Peers, site: str, stream: str, follow_once: FollowOnce
) -> None:
    """Call ``follow_once`` in a loop while a site is reachable, until cancelled.

    ``stream``: the name of the followed stream, for log events. An error of ``follow_once`` does
    not end the loop. The pauses between calls grow until a chunk arrives, or until the site is
    reachable again.
    """
    pause_s = _RETRY_S

    def record_chunk() -> None:
        nonlocal pause_s
        pause_s = _RETRY_S
        task.end_streak()

    async def follow() -> float:
        nonlocal pause_s
        changed = peers.changed()
        while not peers.reachable(site):
            pause_s = _RETRY_S
            await changed.wait()
            changed = peers.changed()
        try:
            await follow_once(record_chunk)
        except MistbowError as error:
            if task.error is not None:
                raise  # no chunk has arrived since the last failure
            # No failure of the task: a followed stream usually ends with an error.
            log.info("follow_interrupted", site=site, stream=stream, error=error.message)
        else:
            if task.error is not None:
                raise UnavailableError(f"the stream from {site} is not followed at present")
        present_s, pause_s = pause_s, min(2 * pause_s, _MAX_RETRY_S)
        return present_s

    fields = {"site": site, "stream": stream}
    schedule = Schedule("follow", _RETRY_S, max_retry_s=_MAX_RETRY_S, fields=fields)
    task = PeriodicTask(follow, schedule)
    await task.run()


async def fetch(network: PeerNetwork, site: str, target: bytes, kind: type[T]) -> T:
    """Return the answer of a site to a GET request, decoded as ``kind``.

    ``target``: the path and the query of the URL. Raises a ``MistbowError`` if the request fails.
    """
    call = PeerRequest(site, "GET", target, wait_s=_SILENCE_S)
    return msgspec.json.decode(await network.read(call, _MAX_FETCHED_BYTES), type=kind)


async def follow_chunks(
    network: PeerNetwork, site: str, target: bytes
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of a followed stream; raises ``UnavailableError`` when the response ends."""
    call = PeerRequest(site, "GET", target, wait_s=_SILENCE_S)
    async with aclosing(network.chunks(call, follows=True)) as chunks:
        async for chunk in chunks:
            yield chunk
    raise UnavailableError(f"the site {site} ended its answer to {target.decode()}")
