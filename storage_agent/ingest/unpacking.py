"""Bodies as collectors send them: compressed, with a bound on what they unpack to."""

import gzip
import io
import zlib

import cramjam

from mistbow.errors import InvalidRequestError, TooLargeError, UnsupportedError


def from_snappy(body: bytes, most: int) -> bytes:
    """Return what is in a snappy block of at most ``most`` bytes; it is not unpacked otherwise."""
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > most:
            raise _too_large(most)
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError as error:
        raise InvalidRequestError(
            f"the body is not in snappy's block format: {error}",
            hint="Compress it as Prometheus does: the block format, not the framed one.",
        ) from error


def from_gzip(body: bytes, most: int) -> bytes:
    """Return what is in a gzip file of at most ``most`` bytes."""
    try:
        with gzip.open(io.BytesIO(body)) as file:
            unpacked = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidRequestError(f"the body is not in gzip's format: {error}") from error
    if len(unpacked) > most:
        raise _too_large(most)
    return unpacked


def unsupported(header: str, given: str | None, taken: str) -> UnsupportedError:
    """Return the error for a header that says what is not understood here."""
    what = f"{header} {given!r} is not supported here" if given else f"{header} is missing"
    return UnsupportedError(what, hint=f"Send {taken}.")


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(
        f"the body is over {most} bytes when it is unpacked",
        hint="Send less at once, or raise MISTBOW_MAX_BODY_BYTES.",
    )
