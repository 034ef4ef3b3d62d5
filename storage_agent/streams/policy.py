"""The policy of a stream: its retention, its compaction by key, and whether it accepts appends."""

from dataclasses import dataclass
from typing import Protocol

from mistbow.errors import StorageFullError
from storage_agent.streams.index import EARLIEST
from storage_agent.streams.state import State


class StreamPolicy(Protocol):
    """The rules for the retention, the compaction and the appends of one stream."""

    @property
    def latest_per_key(self) -> bool:
        """Whether compaction retains only the last event of each key."""

    def retention_ms(self) -> int | None:
        """Return the retention (ms); None: rows do not expire."""

    def expired_before(self, state: State) -> int:
        """Return the expiry threshold (ms): segments that were created earlier have expired.

        Retention leases in ``state`` may require an earlier threshold.
        """

    def is_full(self) -> bool:
        """Return whether appends are rejected because the streams exceed the storage limit."""


def storage_full() -> StorageFullError:
    """Return the error of an append that is rejected because of ``StreamPolicy.is_full``."""
    return StorageFullError(
        "the streams exceed the storage limit",
        hint="By PUT /config, set a greater most_bytes, a shorter retention_ms, or when_full to "
        "evict. With MISTBOW_DURABILITY=memory, the memory of Ignite is a further limit: try "
        "again in a minute, when evicted rows have been removed.",
    )


@dataclass(slots=True)
class StorageUsage:
    """The results of the last checks of the storage limit and of Ignite's memory.

    ``is_full``: whether appends are rejected because the streams exceed the limit.
    ``is_memory_full``: whether appends are rejected because Ignite has too little memory for them.
    """

    is_full: bool = False
    is_memory_full: bool = False


@dataclass(frozen=True, slots=True)
class Permanent:
    """The policy of a stream whose rows never expire."""

    latest_per_key: bool = False

    def retention_ms(self) -> int | None:
        """Return None, because the rows never expire."""
        return None

    def expired_before(self, state: State) -> int:  # noqa: ARG002 - of the protocol
        """Return the earliest time, because no segment expires."""
        return EARLIEST

    def is_full(self) -> bool:
        """Return False, because the storage limit does not apply to the stream."""
        return False
