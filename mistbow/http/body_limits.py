"""The limits of the body of a request: of its parts that are not data, and of its rest."""

import asyncio
from collections.abc import Callable

from mistbow.errors import HeadTooLargeError

MAX_BYTES_WITHOUT_DATA = 64 * 2**10

_COUNTED_BYTES = 2 * 2**10
"""The size of the parts in which a body is parsed, if its trailers and extensions are counted.

The parser reports data without its position, so the count is too small by up to two such parts.
"""

TRAILER_TOO_LARGE = HeadTooLargeError(
    f"the parts of the body that are not data (trailers, extensions of chunks) are larger than "
    f"{MAX_BYTES_WITHOUT_DATA} bytes",
    hint="Send the body without trailers.",
)


class BodyLimits:
    """The state of the body that a connection receives, and its limits.

    The parser collects each trailer and extension in memory until its end. So the bytes since the
    last data are counted.

    After an early answer, the rest of the body is discarded. It must arrive in time, and has a
    maximum size; beyond these limits, ``close`` is called.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, close: Callable[[], None]) -> None:
        self._loop = loop
        self._close = close
        self.is_open = False
        """Whether the head of the request is complete, and its body is not."""
        self.is_chunked = False
        self._bytes_without_data = 0
        self._rest_bytes = 0
        """The number of bytes of the rest that may still arrive, while a timer runs."""
        self._rest_timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin the body of a request, whose head is complete."""
        self.is_open = True
        self.restart_count()

    def end(self) -> None:
        """End the body: the request is complete."""
        self.is_open = False
        self.restart_count()
        self.cancel_rest()

    def parsed_at_once(self, size: int) -> int:
        """Return how many of ``size`` received bytes are parsed before the next check."""
        # Only a body in chunks has parts that are not data, whose bytes are counted.
        return _COUNTED_BYTES if self.is_chunked or not self.is_open else size

    def count(self, size: int) -> None:
        """Count received bytes, which may be data."""
        self._bytes_without_data += size

    def restart_count(self) -> None:
        """Count from 0: data was received, or a request begins."""
        self._bytes_without_data = 0

    def has_large_trailer(self) -> bool:
        """Return whether too many bytes were received since the last data."""
        return self._bytes_without_data > MAX_BYTES_WITHOUT_DATA

    def await_rest(self, seconds: float, max_bytes: int) -> None:
        """Close the connection if the rest of an answered request will be late or too large."""
        self.cancel_rest()
        self._rest_bytes = max_bytes
        self._rest_timer = self._loop.call_later(seconds, self._close)

    def cancel_rest(self) -> None:
        """Await the rest no longer."""
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def accepts_rest(self, size: int) -> bool:
        """Return whether received bytes are within the limit of an awaited rest."""
        if self._rest_timer is None:
            return True
        self._rest_bytes -= size
        return self._rest_bytes >= 0
