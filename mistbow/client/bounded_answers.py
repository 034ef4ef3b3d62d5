"""Bounds on the answers of other services, whose machine may have been stolen.

A service sends no compressed answer. A client of HTTP would decompress one without a bound, and
collect an endless one in memory.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx

MAX_BYTES = 256 * 2**20
"""The maximum size of an answer that is read as a whole, unless the request has another one."""

_MAX_ERROR_BYTES = 8 * 2**20
"""The maximum size of an error, which is read as a whole in any case."""

_LIMIT = "mistbow_max_answer_bytes"

IN_PARTS: dict[str, Any] = {_LIMIT: None}
"""The extensions of a request whose answer is read in parts, and may be endless."""


def at_most(count: int) -> dict[str, Any]:
    """Return the extensions of a request whose answer has at most this number of bytes."""
    return {_LIMIT: count}


def refuse_encoding(request: httpx.Request) -> None:
    """Request an answer without compression."""
    request.headers["Accept-Encoding"] = "identity"


def bound(response: httpx.Response, request: httpx.Request) -> None:
    """Limit the bytes of an answer that is not read yet.

    ``request``: the request of the caller; the client may have sent requests of the authentication
    before it. Raises ``httpx.DecodingError`` if the answer is compressed, and later, when more
    bytes than the limit are read.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise httpx.DecodingError("the answer is compressed", request=request)
    limit = request.extensions.get(_LIMIT, MAX_BYTES)
    if limit is None and not response.is_success:
        limit = _MAX_ERROR_BYTES
    if limit is not None and not response.is_stream_consumed:
        response.stream = _Bounded(response.stream, limit, request)


class _Bounded(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream of bytes that ends with an error beyond a limit."""

    def __init__(self, stream: Any, limit: int, request: httpx.Request) -> None:
        self._stream = stream
        self._left = limit
        self._limit = limit
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield self._counted(part)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield self._counted(part)

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await cast("httpx.AsyncByteStream", self._stream).aclose()

    def _counted(self, part: bytes) -> bytes:
        self._left -= len(part)
        if self._left < 0:
            raise httpx.DecodingError(
                f"the answer has more than {self._limit} bytes", request=self._request
            )
        return part
