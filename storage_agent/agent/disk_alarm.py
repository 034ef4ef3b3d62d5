"""The alarm for a disk that is almost full."""

import asyncio
import shutil
from pathlib import Path

from mistbow.telemetry import get_logger
from storage_agent import metrics

log = get_logger(__name__)

_MEGABYTE = 2**20
_RECOVERY = 1.1
"""The ratio of the limit that must be free before the alarm ends."""


class DiskAlarm:
    """Measures the free space of the disk with an agent's home, and reports too little of it.

    ``min_free_mb``: the free space (MiB) below which the alarm begins; 0: it never begins.
    ``free``, ``size``: the free space and the size of the disk (bytes).
    """

    def __init__(self, home: Path, min_free_mb: int) -> None:
        self._home = home
        self._min_free = min_free_mb * _MEGABYTE
        self.free = 0
        self.size = 0
        self._is_low = False

    async def check(self) -> None:
        """Measure the free space; log if the alarm begins or ends."""
        usage = await asyncio.to_thread(shutil.disk_usage, self._folder())
        self.free, self.size = usage.free, usage.total
        metrics.DISK_FREE.set(usage.free)
        metrics.DISK_SIZE.set(usage.total)
        if not self._is_low and usage.free < self._min_free:
            self._is_low = True
            log.warning("disk_almost_full", folder=str(self._home), free_mb=self._free_mb)
        elif self._is_low and usage.free >= self._min_free * _RECOVERY:
            self._is_low = False
            log.info("disk_has_space", folder=str(self._home), free_mb=self._free_mb)

    def _folder(self) -> Path:
        """Return the home or, before the home is created, the folder that will contain it."""
        return next(each for each in (self._home, *self._home.parents) if each.exists())

    @property
    def problems(self) -> list[str]:
        """A message while too little space is free."""
        if not self._is_low:
            return []
        return [
            f"the disk with {self._home} has {self._free_mb} MB left: free some, lower the "
            f"retention or most_bytes by PUT /config, or offload points (docs/replication.md)"
        ]

    @property
    def _free_mb(self) -> int:
        return self.free // _MEGABYTE
