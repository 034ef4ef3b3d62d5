"""The file with the points that wait while the monitoring agent is stopped."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mistbow.files import write_file
from mistbow.telemetry import get_logger
from monitoring_agent.buffer import Batch

log = get_logger(__name__)

_BATCHES = msgspec.msgpack.Decoder(list[Batch])


class BufferFile:
    """Stores batches with their idempotency keys, so that each is stored once after a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._may_exist = True

    def load(self) -> list[Batch]:
        """Return the stored batches; a damaged file is moved aside, and logged."""
        self._may_exist = True
        try:
            return _BATCHES.decode(self._path.read_bytes())
        except FileNotFoundError:
            self._may_exist = False
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._move_aside(str(error))
        return []

    def save(self, batches: Sequence[Batch]) -> None:
        """Store batches in place of those before; without batches, delete the file."""
        if not batches:
            self._delete()
            return
        self._may_exist = True
        try:
            write_file(self._path, msgspec.msgpack.encode(batches))
        except OSError as error:
            points = sum(len(each.points) for each in batches)
            log.error("buffer_file_write_failed", lost_points=points, error=str(error))

    def _delete(self) -> None:
        # Called after each round of points, so only the first call reaches the disk.
        if not self._may_exist:
            return
        try:
            self._path.unlink(missing_ok=True)
            self._may_exist = False
        except OSError as error:
            log.error("buffer_file_delete_failed", error=str(error))

    def _move_aside(self, error: str) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}")
        log.error("buffer_file_damaged", moved_to=aside.name, error=error)
        try:
            self._path.replace(aside)
        except OSError as failure:
            log.error("buffer_file_move_failed", moved_to=aside.name, error=str(failure))
