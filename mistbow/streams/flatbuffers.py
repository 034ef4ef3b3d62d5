"""Reading Flatbuffers tables, for what PyArrow does not tell of an Arrow message.

Places are bytes from the beginning of the data. Raises ``struct.error`` where the data ends early.
"""

import struct


def root(data: bytes) -> int:
    """Return where the outermost table is."""
    at: int = struct.unpack_from("<I", data)[0]
    return at


def field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table is, or None if the table does not have it."""
    places = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, places)[0]:
        return None
    offset: int = struct.unpack_from("<H", data, places + entry)[0]
    return table + offset if offset else None


def child(data: bytes, table: int, number: int) -> int:
    """Return where the table in a field is; raises ``ValueError`` if there is no such field."""
    at = field(data, table, number)
    if at is None:
        raise ValueError("a message is not whole")
    found: int = at + struct.unpack_from("<I", data, at)[0]
    return found
