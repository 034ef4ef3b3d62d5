"""The division of a protobuf message into parts, so that a thread parses it part by part.

The parser of protobuf blocks all other threads, and a message may contain millions of empty
messages, which take far more memory than their bytes.
"""

from collections.abc import Iterator

PART_BYTES = 64 * 2**10

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


class TooManyFieldsError(Exception):
    """A large field contains a message with too many fields."""


def split_message(message: bytes, repeated: int, max_fields: int) -> Iterator[bytes]:
    """Yield parts of about ``PART_BYTES``, each with whole fields; a larger field is a part.

    The fields of the message are those of all parts, in their order. The rest of a malformed
    message is one part, so that parsing it reports the error. ``repeated``: the number of the field
    that contains messages. Raises ``TooManyFieldsError`` if a large message has more than
    ``max_fields`` fields.

    >>> list(split_message(b"\\x0a\\x01x\\x10\\x05", 1, 9))
    [b'\\n\\x01x\\x10\\x05']
    """
    if len(message) <= PART_BYTES:
        yield message
        return
    begin = 0
    for number, content, end in _fields(message, 0, len(message)):
        if number == repeated and end - content > PART_BYTES:
            _check_fields(message, content, end, max_fields)
        if end - begin >= PART_BYTES:
            yield message[begin:end]
            begin = end
    if begin < len(message):
        yield message[begin:]


def first_field(message: bytes) -> int | None:
    """Return the number of the first field of a message; None: it has no valid field."""
    return next((number for number, _, _ in _fields(message, 0, len(message))), None)


def _check_fields(message: bytes, begin: int, end: int, max_fields: int) -> None:
    for count, _ in enumerate(_fields(message, begin, end), 1):
        if count > max_fields:
            raise TooManyFieldsError


def _fields(message: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, begin, end) of each field and its content, up to the first malformed field."""
    try:
        while begin < end:
            key, begin = _varint(message, begin)
            kind = key & 7
            if kind == _BYTES:
                size, begin = _varint(message, begin)
                after = begin + size
            elif kind == _VARINT:
                _, after = _varint(message, begin)
            elif kind in _FIXED_BYTES:
                after = begin + _FIXED_BYTES[kind]
            else:
                return
            if after > end:
                return
            yield key >> 3, begin, after
            begin = after
    except IndexError:
        return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return (value, position after it); raises ``IndexError`` if it ends too late."""
    value = message[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for shift in range(7, 70, 7):
        at += 1
        byte = message[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
    raise IndexError("a number has more than ten bytes")
