"""The configuration (retention and storage limit), which PUT /config changes at run time."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from mistbow.client.operation_model import Config, ConfigChange
from mistbow.errors import InvalidRequestError, UnavailableError
from mistbow.streams.schemas import DECISIONS, DEPLOYMENTS, METADATA, PLACEMENTS, is_permanent
from storage_agent.agent.clock_steps import Ago
from storage_agent.ignite.client import IgniteClient
from storage_agent.ignite.keys import CONFIG_KEY
from storage_agent.ignite.text_cell import TextCell
from storage_agent.settings import AgentSettings
from storage_agent.streams.index import EARLIEST
from storage_agent.streams.maintenance import StorageLimit
from storage_agent.streams.policy import Permanent, StorageUsage, StreamPolicy
from storage_agent.streams.state import State
from storage_agent.streams.streams import is_internal

_STORE_S = 5.0


class ConfigCell:
    """The current configuration: the agent's settings, overridden by changes stored in Ignite."""

    def __init__(self, settings: AgentSettings, ignite: IgniteClient) -> None:
        self._ignite = ignite
        self._lock = asyncio.Lock()
        self._cell = TextCell(ignite, CONFIG_KEY)
        self._changed: dict[str, object] = {}
        self._settings: dict[str, object] = {
            "retention_ms": settings.retention_s and settings.retention_s * 1000,
            "streams": {},
            "most_bytes": settings.max_disk_mb and settings.max_disk_mb * 2**20,
            "when_full": settings.when_full,
        }
        self.current = self._merge({})

    @property
    def changes(self) -> dict[str, object]:
        """The stored changes of the configuration: field -> value."""
        return self._changed

    async def load(self) -> None:
        """Read the stored changes of the configuration from Ignite.

        A change whose outcome is unknown is undone before.
        """
        async with self._lock:
            await self._settle()
            self._adopt(await self._cell.load())

    async def settle(self) -> None:
        """Store the configuration in force again if Ignite has not answered a change.

        Otherwise a change that was answered with an error would take effect at the next start, and
        a shorter retention would delete rows.
        """
        async with self._lock:
            await self._settle()

    async def change(self, change: ConfigChange) -> Config:
        """Store the fields of a change, and return the new configuration.

        All other fields keep their values, even if they are changed concurrently. Raises
        ``InvalidRequestError`` if a key of ``streams`` is neither a name nor a prefix, and
        ``UnavailableError`` without an answer of Ignite: the change is then undone once Ignite
        answers.
        """
        given: dict[str, Any] = msgspec.to_builtins(change)
        for name in given.get("streams", {}):
            if not name or "*" in name.removesuffix("*"):
                hint = "Write the name of a stream, or a pattern such as results/*."
                raise InvalidRequestError(
                    f"streams: the key {name!r} is neither a stream's name nor a pattern",
                    hint=hint,
                )
        async with self._lock:
            await self._settle()
            try:
                await self._ignite.retry(lambda: self._store(given), _STORE_S)
            except UnavailableError as error:
                raise UnavailableError(
                    f"{error.message}; the configuration is not changed",
                    hint="Repeat the request later. If the agent stops before Ignite answers "
                    "again, the change may be in force after its start: read GET /config then.",
                ) from error
            return self.current

    async def _store(self, given: dict[str, object]) -> None:
        """Store the given fields in Ignite, and preserve the other stored fields.

        After an error, the method may be called again. The compare-and-set prevents an abandoned
        change that arrives late from undoing a later change.
        """
        while not await self._cell.swap(text := self._encoded(given)):
            self._adopt(await self._cell.load())
        self._adopt(text)

    async def _settle(self) -> None:
        if self._cell.is_uncertain:
            self._adopt(await self._cell.settle(undo=self._encoded({})))

    def _encoded(self, given: dict[str, object]) -> str:
        return msgspec.json.encode({**self._changed, **given}, order="deterministic").decode()

    def _adopt(self, stored: str | None) -> None:
        self._changed = {} if stored is None else msgspec.json.decode(stored)
        self.current = self._merge(self._changed)

    def storage_limit(self) -> StorageLimit:
        """Return the storage limit that all streams share."""
        return StorageLimit(self.current.max_bytes, self.current.when_full == "evict")

    def _merge(self, changed: dict[str, object]) -> Config:
        return msgspec.convert({**self._settings, **changed}, Config)


@dataclass(frozen=True, slots=True)
class ConfiguredPolicies:
    """Creates a policy for each stream from the agent's configuration.

    ``ago``: the clock by which rows expire. ``usage``: the results of the last checks of the
    storage limit.
    """

    config: ConfigCell
    ago: Ago
    usage: StorageUsage

    def policy_of(self, stream: str) -> StreamPolicy:
        """Return the policy of a stream."""
        is_facts = stream.rpartition("/")[2] == METADATA and is_internal(stream)
        # Streams with the decisions of a merge have the id of a group after the slash.
        is_decisions = stream == DECISIONS or (
            stream.startswith(f"{DECISIONS}/") and "." not in stream
        )
        is_state = stream.partition("/")[0] in (DEPLOYMENTS, PLACEMENTS)
        latest_per_key = is_facts or is_decisions or is_state
        if is_permanent(stream):
            return Permanent(latest_per_key)
        return ConfiguredPolicy(stream, latest_per_key, self)


@dataclass(frozen=True, slots=True)
class ConfiguredPolicy:
    """The policy of a stream whose rows expire as the agent's configuration specifies."""

    stream: str
    latest_per_key: bool
    policies: ConfiguredPolicies

    def retention_ms(self) -> int | None:
        """Return the configured retention (ms); None: rows do not expire."""
        return self.policies.config.current.retention_of(self.stream)

    def expired_before(self, state: State) -> int:
        """Return the expiry threshold (ms): segments that were created earlier have expired.

        Retention leases in ``state`` may require an earlier threshold.
        """
        retention_ms = self.retention_ms()
        if retention_ms is None:
            return EARLIEST
        ago = self.policies.ago
        leased = (retain_ms for retain_ms, _ in state.retention_leases(ago(0)).values())
        return ago(max(retention_ms, *leased, 0))

    def is_full(self) -> bool:
        """Return whether appends are rejected because the streams exceed the storage limit."""
        usage = self.policies.usage
        return usage.is_full or usage.is_memory_full
