"""The alarm for a disk that is almost full."""

import os
import shutil
from functools import partial
from pathlib import Path

from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.work_threads import upkeep_beside

log = get_logger(__name__)

_MEGABYTE = 2**20
_RECOVERY = 1.1
"""The ratio of the limit that must be free before the alarm ends."""

_MIN_INODES = 1000


class DiskAlarm:
    """Measures the free space and inodes of the disk with an agent's home, and reports too few.

    ``min_free_mb``: the free space (MiB) below which the alarm begins; 0: it never begins, neither
    for space nor for inodes.
    ``free``, ``size``: the free space and the size of the disk (bytes).
    """

    def __init__(self, home: Path, min_free_mb: int) -> None:
        self._home = home
        self._min_free = min_free_mb * _MEGABYTE
        self.free = 0
        self.size = 0
        self._is_low = False
        # How many files a user can still create; None: the file system has no such limit.
        self._free_inodes: int | None = None

    async def check(self) -> None:
        """Measure the free space; log if the alarm begins or ends."""
        usage = await upkeep_beside(partial(shutil.disk_usage, self._folder()))
        self.free, self.size = usage.free, usage.total
        inodes = await upkeep_beside(partial(os.statvfs, self._folder()))
        self._free_inodes = inodes.f_favail if inodes.f_files else None
        metrics.DISK_FREE.set(usage.free)
        metrics.DISK_SIZE.set(usage.total)
        metrics.DISK_FREE_INODES.set(inodes.f_favail)
        metrics.DISK_INODES.set(inodes.f_files)
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
        """Messages while too little space or too few inodes are free."""
        inodes = self._free_inodes
        few = [
            f"the disk with {self._home} can take only {inodes} more files (inodes): delete files "
            "that are not needed, or choose a file system with more inodes"
        ]
        few = few if self._min_free and inodes is not None and inodes < _MIN_INODES else []
        if not self._is_low:
            return few
        return [
            *few,
            f"the disk with {self._home} has {self._free_mb} MB left: free some, or, while "
            "Ignite answers, lower the retention or most_bytes by PUT /config, or offload points "
            "(docs/replication.md)",
        ]

    @property
    def _free_mb(self) -> int:
        return self.free // _MEGABYTE
