"""The memory region of an Ignite that stores data in memory only.

Such an Ignite ends when the region is full, and all data of the site is lost.
"""

from dataclasses import dataclass, field

from mistbow.telemetry import get_logger
from storage_agent.cluster.topology import read_durability
from storage_agent.ignite.client import IgniteClient
from storage_agent.streams.maintenance import StorageLimit
from storage_agent.streams.policy import StorageUsage

log = get_logger(__name__)

MAX_SHARE_USED = 0.75
"""The share of the region from which on appends are rejected."""

_MAX_SHARE_OF_STREAMS = 0.4
"""The share of the region that streams may take up.

Segments that were compacted or evicted stay in the region for another minute.
"""

_METRIC = "io.dataregion.persistent."
_USED, _SIZE = f"{_METRIC}TotalUsedPages", f"{_METRIC}MaxSize"
_READ = f"SELECT NAME, VALUE FROM SYS.METRICS WHERE NAME IN ('{_USED}', '{_SIZE}')"  # noqa: S608 - constants
_PAGE_BYTES = 4096


@dataclass(slots=True)
class MemoryRegion:
    """The memory region of an Ignite node.

    ``usage``: receives the result of each check. ``max_bytes``: the maximum size of all streams
    (bytes); None: Ignite stores data on disk.
    """

    ignite: IgniteClient
    usage: StorageUsage
    max_bytes: int | None = field(default=None, init=False)

    async def open(self) -> None:
        """Read the size of the region; raises ``UnavailableError`` if Ignite does not answer."""
        is_persistent, _ = await read_durability(self.ignite)
        if not is_persistent:
            _, size = await self._read()
            self.max_bytes = int(_MAX_SHARE_OF_STREAMS * size)

    def limit(self, configured: StorageLimit) -> StorageLimit:
        """Return the storage limit, with a maximum size that fits into the region."""
        if self.max_bytes is None:
            return configured
        return StorageLimit(
            min(configured.max_bytes or self.max_bytes, self.max_bytes), configured.evict
        )

    async def check(self) -> None:
        """Record in ``usage`` whether the region is too full for further appends.

        Raises ``UnavailableError`` if Ignite does not answer.
        """
        if self.max_bytes is None:
            return
        used, size = await self._read()
        is_full = used > MAX_SHARE_USED * size
        if is_full and not self.usage.is_memory_full:
            log.warning("memory_region_full", used_mb=used // 2**20, size_mb=size // 2**20)
        self.usage.is_memory_full = is_full

    async def _read(self) -> tuple[int, int]:
        """Return the used bytes of the region, and its size in bytes."""
        found = {name: int(value) for name, value in await self.ignite.query(_READ)}
        return found[_USED] * _PAGE_BYTES, found[_SIZE]
