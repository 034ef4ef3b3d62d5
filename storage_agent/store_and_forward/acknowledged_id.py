"""The id of the last body that the spool has acknowledged, in a file beside the spool.

A log that lacks this body was damaged. Without this id, a damaged last commit looks like a commit
that a power cut interrupted, whose body was not acknowledged.
"""

import contextlib
import os
import struct
import zlib
from pathlib import Path

_ID = struct.Struct(">Q")
_RECORD = struct.Struct(">QI")


class AcknowledgedId:
    """Stores an id with a checksum; an older id, or none, remains after a power cut."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def read(self) -> int:
        """Return the stored id; 0: there is none that can be read."""
        try:
            number, checksum = _RECORD.unpack(self._path.read_bytes())
        except (OSError, struct.error):
            return 0
        return number if checksum == zlib.crc32(_ID.pack(number)) else 0

    def write(self, number: int) -> None:
        """Store an id, without waiting for the disk; a fault of the disk leaves the id before."""
        with contextlib.suppress(OSError):
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._file, _RECORD.pack(number, zlib.crc32(_ID.pack(number))), 0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
