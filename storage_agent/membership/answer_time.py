"""The time that a peer has to answer a request.

A timeout of each read alone does not end an answer that arrives byte by byte: a stolen site could
delay reads over all sites, and loops in the background, without end.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from mistbow.errors import UnavailableError

T = TypeVar("T")

CONNECT_S = 1.0
ANSWER_S = 3.0
"""The time (s) of a peer for the proof of its identity, and for an answer without a wait."""

MIN_BYTES_PER_S = 16 * 2**10
"""The minimum rate of requests and answers that take longer than the time of an answer.

It is an eighth of a link with 1 Mbit/s, which several large answers may share.
"""

MAX_ANSWER_S = 1200.0
"""The maximum time (s) that a request waits for its answer.

The largest answer (128 MiB) takes 18 minutes over a link with 1 Mbit/s.
"""


class AnswerTime:
    """The remaining time of a request to a site; it grows with the bytes of the answer.

    ``size``: the bytes of the request. ``wait_s``: the time that the handler of the request may
    take. Only the waits for the site count, not the work of the reader between them.
    """

    def __init__(self, site: str, size: int = 0, wait_s: float = 0.0) -> None:
        self._site = site
        self._max = MAX_ANSWER_S
        # ANSWER_S twice: before a first request, the site proves its identity.
        seconds = CONNECT_S + 2 * ANSWER_S + wait_s + size / MIN_BYTES_PER_S
        self._left = min(seconds, self._max)

    async def wait(self, answer: Awaitable[T]) -> T:
        """Wait for an answer or for a part of it; raises ``UnavailableError`` if time is up."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, self._left)):
                return await answer
        except TimeoutError as error:
            raise UnavailableError(
                f"the site {self._site} answers too slowly", hint="Try again later."
            ) from error
        finally:
            waited = asyncio.get_running_loop().time() - began
            self._left -= waited
            self._max -= waited

    def begin_body(self) -> None:
        """Leave at least the time of an answer for the body, after the headers have arrived."""
        self._left = min(max(self._left, ANSWER_S), self._max)

    def add(self, size: int) -> None:
        """Extend the time by that of ``size`` received bytes at the minimum rate."""
        self._left = min(self._left + size / MIN_BYTES_PER_S, self._max)
