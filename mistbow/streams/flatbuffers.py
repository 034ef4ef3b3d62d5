"""Access to Flatbuffers tables, for the parts of Arrow messages that PyArrow does not expose.

Offsets are in bytes from the beginning of the data. ``struct.error`` is raised for truncated data.
"""

import struct


def root_table(data: bytes) -> int:
    """Return the offset of the outermost table."""
    offset: int = struct.unpack_from("<I", data)[0]
    return offset


def field_offset(data: bytes, table: int, number: int) -> int | None:
    """Return the offset of the field ``number`` of a table; None: the table lacks the field."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", data, vtable)[0]:
        return None
    offset: int = struct.unpack_from("<H", data, vtable + entry)[0]
    return table + offset if offset else None


def child_table(data: bytes, table: int, number: int) -> int:
    """Return the offset of the table to which the field ``number`` of a table refers.

    Raises ``ValueError`` if the field is missing.
    """
    at = field_offset(data, table, number)
    if at is None:
        raise ValueError("the Arrow IPC message is incomplete")
    offset: int = at + struct.unpack_from("<I", data, at)[0]
    return offset
