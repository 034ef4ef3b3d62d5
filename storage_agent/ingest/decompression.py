"""The decompression of request bodies, with a limit on the decompressed size."""

import gzip
import io
import zlib

import cramjam

from mistbow.errors import InvalidRequestError, TooLargeError, UnsupportedError


def parse_encoding(content_encoding: str | None) -> str:
    """Return the name of a Content-Encoding, which is not case-sensitive; empty: none.

    >>> parse_encoding(" GZIP"), parse_encoding(None)
    ('gzip', '')
    """
    return (content_encoding or "").strip().lower()


def snappy_size(body: bytes, max_bytes: int) -> int:
    """Return the size of a snappy block when decompressed, as the block states it.

    Raises ``TooLargeError`` if it is above ``max_bytes``, and ``InvalidRequestError`` if the body
    is not a snappy block.
    """
    try:
        size: int = cramjam.snappy.decompress_raw_len(body)
    except cramjam.DecompressionError as error:
        raise _no_snappy(error) from error
    if size > max_bytes:
        raise _too_large(max_bytes)
    return size


def decompress_snappy(body: bytes) -> bytes:
    """Decompress a snappy block.

    Raises ``InvalidRequestError`` if the body is not a snappy block of the size that it states.
    """
    try:
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise _no_snappy(error) from error


def decompress_gzip(body: bytes, max_bytes: int) -> bytes:
    """Decompress a gzip file; ``max_bytes``: the maximum size of the decompressed content.

    Raises ``TooLargeError`` if the content is larger, and ``InvalidRequestError`` if the body is
    not a gzip file.
    """
    try:
        with gzip.open(io.BytesIO(body)) as file:
            content = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRequestError(f"the body is not in gzip's format: {error}") from error
    if len(content) > max_bytes:
        raise _too_large(max_bytes)
    return content


def unsupported_header(name: str, value: str | None, supported: str) -> UnsupportedError:
    """Return the error for a header that is not supported, or is missing (``value`` is None).

    ``supported``: the header to send, for the hint.
    """
    problem = f"{name}: {value!r} is not supported" if value else f"{name}: the header is missing"
    return UnsupportedError(problem, hint=f"Send {supported}.")


def _no_snappy(error: Exception) -> InvalidRequestError:
    return InvalidRequestError(
        f"the body is not in snappy's block format: {error}",
        hint="Use snappy's block format, as Prometheus does, not the framed format.",
    )


def _too_large(max_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"the decompressed body has more than {max_bytes} bytes",
        hint="Send fewer points per request, or raise MISTBOW_MAX_BODY_BYTES.",
    )
