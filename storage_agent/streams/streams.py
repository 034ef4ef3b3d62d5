"""The streams of an agent: creates, opens, recovers and deletes streams."""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.clock import Clock
from mistbow.errors import (
    ConflictError,
    InvalidRequestError,
    MistbowError,
    NotFoundError,
    UnavailableError,
)
from mistbow.streams import schemas
from mistbow.streams.models import StreamField, StreamInfo
from mistbow.streams.schemas import POINTS, RAW, ROW_FRONTIER
from mistbow.telemetry import get_logger
from storage_agent import metrics
from storage_agent.ignite.client import HISTORICAL, METADATA, IgniteClient
from storage_agent.ignite.text_cell import TextCell
from storage_agent.streams.json_values import stored_type, unknown_time_zones
from storage_agent.streams.log import StreamLog
from storage_agent.streams.policy import Permanent, StreamPolicy
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.segments import empty_batch, segment_key
from storage_agent.streams.stream_record import (
    STREAM_PREFIX,
    StreamRecord,
    decode_record,
    encode_record,
    log_key,
    new_record,
    schema_of,
)
from storage_agent.streams.stream_removal import remove_data
from storage_agent.streams.writer import Writer

REPLICA_PREFIX = "replicas/"
"""The prefix of the name of each replica; the name of the source site is the next part."""

RECORD_PREFIX = "records/"
"""The prefix of the name of each stream of records; the kind of the records is the next part."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")
_LAST_SEGMENTS = 16
_MAX_SHOWN_ZONE = 100
_MAX_SHOWN_NAME = 100
_RESERVED = ("info", "claim", "seek", "offset", "rows", "events", "hold")
_RETRY_S = 5.0

log = get_logger(__name__)


PolicyOf = Callable[[str], StreamPolicy]
"""A function that returns the policy of a stream, given the name of the stream."""


def permanent(_: str) -> StreamPolicy:
    """Return the policy of a stream whose rows never expire, whatever the stream's name."""
    return Permanent()


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: its log, which reads rows, and its writer, which appends and deletes rows."""

    log: StreamLog
    writer: Writer

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self.log.name

    @property
    def incarnation(self) -> int:
        """The number of earlier streams with the same name."""
        return int(self.log.key.partition("@")[2] or 0)

    @property
    def timed(self) -> bool:
        """Whether the frontier of the stream follows this agent's clock."""
        return self.writer.lateness_ms is not None

    @property
    def read_schema(self) -> pa.Schema:
        """The schema of the rows that a subscriber receives.

        If rows can be late, the schema has the additional column ``horizon``: the frontier that the
        stream had when the row was appended.
        """
        return self.log.schema.append(ROW_FRONTIER) if self.timed else self.log.schema

    def info(self) -> StreamInfo:
        """Return a description of the stream for clients."""
        log = self.log
        log.watch()
        return StreamInfo(
            name=log.name,
            fields=[StreamField(field.name, str(field.type)) for field in log.schema],
            first=log.first,
            head=log.head,
            frontier=log.frontier,
            epoch=log.epoch,
            attributes=log.attributes,
            late=log.index.late,
            lateness_ms=self.writer.lateness_ms,
            bytes=log.bytes,
            segments=len(log.index),
            rows=log.index.rows,
            stored_bytes=log.index.bytes,
            retention_ms=log.policy.retention_ms(),
        )


class Streams:
    """Creates, opens, recovers and deletes streams.

    Methods that use Ignite raise ``UnavailableError`` while Ignite is unavailable. ``check``: given
    the name of a stream, raises an error if reads and writes of the stream are refused.
    """

    def __init__(
        self,
        ignite: IgniteClient,
        clock: Clock,
        lateness_ms: int,
        policy_of: PolicyOf = permanent,
        check: Callable[[str], None] | None = None,
    ) -> None:
        self._epoch = 0
        self._check = check
        self._ignite = ignite
        self._clock = clock
        self._lateness_ms = lateness_ms
        self._policy_of = policy_of
        self._store = SegmentStore(ignite)
        self._open: dict[str, Stream] = {}
        self._deleted: dict[str, StreamRecord] = {}
        self._deletions = 0
        self._removing = asyncio.Lock()

    async def recover(self, metadata: dict[str, Any]) -> None:
        """Open all streams that exist in Ignite; if ``raw`` does not exist, create ``raw`` first.

        ``metadata``: the content of Ignite's cache ``metadata``, as key -> value. Raises
        ``UnavailableError`` if a replica of metadata was damaged, and has been deleted. The caller
        must then read ``metadata`` again.
        """
        await self._record(RAW, POINTS)
        records = {
            key.removeprefix(STREAM_PREFIX): decode_record(value)
            for key, value in metadata.items()
            if key.startswith(STREAM_PREFIX)
        }
        self._deleted = {
            name: record
            for name, record in records.items()
            if record.deleted and not record.dropped
        }
        there = {name for name, record in records.items() if not record.deleted}
        for name in {RAW, *there} - set(self._open):
            try:
                # A refused stream is recovered too, so that its loss is determined again.
                await self._open_stream(name)
            except MistbowError:
                raise
            except Exception as error:
                if not is_metadata_replica(name):
                    raise
                await self._drop_damaged(name, records[name], error)

    async def _drop_damaged(self, name: str, record: StreamRecord, error: Exception) -> None:
        """Delete a replica of metadata that cannot be opened, and raise ``UnavailableError``.

        Earlier versions stored any rows that a stolen site sent. These must not stop this agent.
        """
        log.error("metadata_replica_dropped", stream=name, exc_info=error)
        self._deleted[name] = record
        self._deletions += 1
        await self._finish(name)
        raise UnavailableError(f"the stream {name} was damaged, and has been deleted")

    async def close(self) -> None:
        """Close the writers of all open streams."""
        for stream in self._open.values():
            await stream.writer.close()

    def check(self, name: str) -> None:
        """Raise an error if reads and writes of a stream are refused."""
        if self._check is not None:
            self._check(name)

    def all(self) -> list[Stream]:
        """Return the open streams, sorted by name."""
        return [stream for _, stream in sorted(self._open.items())]

    def expected_keys(self) -> dict[str, list[str]]:
        """Return the keys that Ignite must have: name of a cache -> keys.

        If a key is missing, Ignite has lost acknowledged content.
        """
        logs = [stream.log for stream in self._open.values()]
        manifests = [log.manifest.key for log in logs if log.manifest.exists]
        return {
            METADATA: [log.state.key for log in logs] + manifests,
            HISTORICAL: [key for log in logs for key in _last_keys(log)],
        }

    async def create(self, name: str, schema: pa.Schema) -> bool:
        """Create a stream, and return True; if a stream has this name and schema, return False.

        Raises ``ConflictError`` if a stream with this name has another schema, and
        ``InvalidRequestError`` if the name or the schema is not allowed.
        """
        _check_name(name)
        _check_schema(schema)
        # Streams of earlier versions may have such fields, also at other sites.
        if name not in self._open and not is_internal(name):
            _check_time_zones(schema)
            _check_field_names(schema)
        self.check(name)
        created = await self._record(name, schema)
        try:
            stream = await self.get(name)
        except NotFoundError as error:
            raise _being_deleted(name) from error  # after it was recorded
        if not stream.log.schema.equals(schema):
            raise ConflictError(f"the stream {name} exists with another schema")
        return created

    async def get(self, name: str) -> Stream:
        """Return the stream with a name; raises ``NotFoundError`` if no stream has this name."""
        self.check(name)
        return await self._open_stream(name)

    async def _open_stream(self, name: str) -> Stream:
        while name not in self._open:
            if name in self._deleted and not self._deleted[name].deleted:
                raise _being_deleted(name)
            deletions = self._deletions
            record = await self._recorded(name)
            if record is None or record.deleted:
                hint = f"PUT /streams/{name} creates the stream."
                raise NotFoundError(f"there is no stream {name}", hint=hint)
            log = self._log(name, record)
            await log.recover()
            # Another task may have opened it meanwhile, or deleted it.
            if name not in self._open and deletions == self._deletions:
                timed = self._lateness_ms if name == RAW else None
                writer = Writer(log, self._ignite, self._clock, timed, lambda: self.check(name))
                self._open[name] = Stream(log, writer)
                writer.start()
        return self._open[name]

    def find_open(self, name: str) -> Stream | None:
        """Return the open stream with a name, even if reads and writes of the stream are refused.

        Returns None if no open stream has this name.
        """
        return self._open.get(name)

    async def restore(self, name: str, schema: pa.Schema) -> Stream:
        """Recreate a stream that Ignite has lost, and return the new stream.

        Reads and writes of the stream are refused until the stream is repaired.
        """
        await self._record(name, schema)
        return await self._open_stream(name)

    async def delete(self, name: str) -> None:
        """Delete a stream; once the stream's rows are removed, the name can be used again.

        Raises ``UnavailableError`` if Ignite has not stored the deletion; ``finish_deleting``
        retries the deletion later.
        """
        stream = await self.get(name)
        record = await self._existing(name)
        if self._open.get(name) is not stream:
            raise _being_deleted(name)
        # From here on it is deleted, even if this request fails.
        self._deleted[name] = record
        self._deletions += 1
        del self._open[name]
        stream.log.mark_removed()
        # No append may be acknowledged once the deletion is stored.
        await stream.writer.close()
        await self._ignite.retry(lambda: self._store_deletion(name), _RETRY_S)
        try:
            await self._finish(name)
        except UnavailableError as error:
            log.info("stream_removal_delayed", stream=name, error=error.message)

    async def finish_deleting(self) -> None:
        """Remove the remaining rows of deleted streams.

        Raises ``UnavailableError`` while Ignite is unavailable.
        """
        for name in list(self._deleted):
            await self._finish(name)

    async def take_over(self, epoch: int) -> None:
        """Store ``epoch`` in the manifests of all streams; this fences agents with older epochs."""
        self._epoch = epoch
        for stream in self.all():
            await stream.log.manifest.update(lambda manifest: manifest)
            stream.log.follow_manifest()

    async def _store_deletion(self, name: str) -> None:
        """Record in Ignite that a stream is deleted; may be called again after an error."""
        async with self._removing:
            record = self._deleted.get(name)
            if record is None or record.deleted:
                return
            self._deleted[name] = await self._replace_record(name, record, deleted=True)

    async def _finish(self, name: str) -> None:
        """Remove the rows of a deleted stream; may be called again after an error."""
        await self._store_deletion(name)
        async with self._removing:
            # Another task, or an agent that took over, may have finished the deletion.
            if name in self._deleted and await self._recorded(name) == self._deleted[name]:
                await self._drop(name, self._deleted[name])
            self._deleted.pop(name, None)

    async def _drop(self, name: str, record: StreamRecord) -> None:
        dropped = self._log(name, record)
        await remove_data(dropped)
        await self._ignite.remove_all(METADATA, [dropped.manifest.key, dropped.state.key])
        metrics.forget_stream(name, dropped.key)
        await self._replace_record(name, record, dropped=True)

    def _log(self, name: str, record: StreamRecord) -> StreamLog:
        key = log_key(name, record.incarnation)
        policy = self._policy_of(name)
        return StreamLog(name, schema_of(record), self._store, lambda: self._epoch, key, policy)

    async def _existing(self, name: str) -> StreamRecord:
        record = await self._recorded(name)
        if record is None:
            raise NotFoundError(f"there is no stream {name}")
        return record

    async def _recorded(self, name: str) -> StreamRecord | None:
        stored = await self._ignite.get(METADATA, STREAM_PREFIX + name)
        return None if stored is None else decode_record(stored)

    async def _record(self, name: str, schema: pa.Schema) -> bool:
        """Store the description of a new stream; return False if the stream already exists.

        Raises ``UnavailableError`` if an earlier stream with this name is still being deleted.
        """
        record = new_record(schema)

        def changed(now: StreamRecord | None) -> StreamRecord:
            if now is None:
                return record
            if now.deleted and not now.dropped:
                raise _being_deleted(name)
            if now.deleted:
                return msgspec.structs.replace(record, incarnation=now.incarnation + 1)
            return now

        return await self._change(name, changed)

    async def _replace_record(
        self, name: str, expected: StreamRecord, **fields: bool
    ) -> StreamRecord:
        """Replace the stored description ``expected`` with a changed copy, and return the copy.

        ``fields``: the names and values of the changed fields. If Ignite has no description of the
        stream, the copy is stored; if Ignite has a description other than ``expected``, the copy is
        not stored.
        """
        changed = msgspec.structs.replace(expected, **fields)
        # An agent that took over may have stored a later record: that stays.
        await self._change(name, lambda now: changed if now is None or now == expected else now)
        return changed

    async def _change(
        self, name: str, change: Callable[[StreamRecord | None], StreamRecord]
    ) -> bool:
        """Replace the stored description of a stream with the result of ``change``.

        Returns whether the description changed. ``change``: receives the stored description, or
        None if Ignite has no description of the stream.
        """
        cell = TextCell(self._ignite, STREAM_PREFIX + name)
        while True:
            stored = await cell.load()
            changed = encode_record(change(None if stored is None else decode_record(stored)))
            if changed == stored:
                return False
            if await cell.swap(changed):
                return True


def _last_keys(log: StreamLog) -> list[str]:
    """Return the Ignite keys of a log's last segments, which are stored in several partitions."""
    last = range(max(0, len(log.index) - _LAST_SEGMENTS), len(log.index))
    entries = (log.index[number] for number in last)
    return [segment_key(log.key, entry.first) for entry in entries if not entry.blocks]


def _being_deleted(name: str) -> UnavailableError:
    return UnavailableError(f"the stream {name} is being deleted", hint="Try again in a moment.")


def is_stream_deleted(metadata: dict[str, Any], key: str) -> bool:
    """Return whether the stream whose log has the key ``key`` is deleted.

    ``metadata``: the content of Ignite's cache ``metadata``, as key -> value. A stream also counts
    as deleted if a newer stream has the same name.
    """
    name, _, incarnation = key.partition("@")
    stored = metadata.get(STREAM_PREFIX + name)
    if stored is None:
        return False
    record = decode_record(stored)
    return record.deleted or record.incarnation > int(incarnation or 0)


def is_internal(name: str) -> bool:
    """Return whether only the agent itself may write to the stream with a given name."""
    return name in (RAW, schemas.METADATA) or name.startswith((REPLICA_PREFIX, RECORD_PREFIX))


def is_metadata_replica(name: str) -> bool:
    """Return whether a stream has the name of a replica of another site's metadata.

    >>> is_metadata_replica("replicas/edge/metadata"), is_metadata_replica("replicas/edge/x")
    (True, False)
    """
    parts = name.split("/")
    return name.startswith(REPLICA_PREFIX) and parts[2:] == [schemas.METADATA]


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{name!r} cannot be the name of a stream",
            hint="Use lower-case letters, digits and . _ / -, at most 100 characters.",
        )
    if name.rpartition("/")[2] in _RESERVED:
        raise InvalidRequestError(
            f"{name!r} ends in a reserved word; the reserved words are {', '.join(_RESERVED)}"
        )


def _check_schema(schema: pa.Schema) -> None:
    try:
        names = schema.names
        empty_batch(schema)
    except (UnicodeDecodeError, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(f"a stream cannot have these fields: {error}") from error
    if not names:
        raise InvalidRequestError("the schema has no fields; a stream needs at least one field")
    if len(set(names)) < len(names):
        raise InvalidRequestError("several fields have the same name; rename all but one")
    if ROW_FRONTIER.name in names:
        raise InvalidRequestError(
            f"the field name {ROW_FRONTIER.name} is reserved; choose another name"
        )
    if "ts" in names and schema.field("ts").type != pa.int64():
        raise InvalidRequestError(
            f"the field ts is {schema.field('ts').type}, not int64",
            hint="Send ts in milliseconds since the epoch as int64, or rename the field.",
        )


def _check_time_zones(schema: pa.Schema) -> None:
    for field in schema:
        for zone in unknown_time_zones(field.type):
            raise InvalidRequestError(
                f"the field {field.name} has the unknown time zone {zone[:_MAX_SHOWN_ZONE]!r}",
                hint="Use a name of the time zone database, such as UTC or Europe/Berlin, or an "
                "offset such as +02:00.",
            )


def _check_field_names(fields: Iterable[pa.Field]) -> None:
    """Raise ``InvalidRequestError`` if a field, also inside another one, has a NUL in its name.

    In Arrow's interface for C, by which SQL reads rows, a NUL ends the name.
    """
    for field in fields:
        if "\0" in field.name:
            raise InvalidRequestError(
                f"the field {field.name[:_MAX_SHOWN_NAME]!r} has the character U+0000 in its name",
                hint="Rename the field.",
            )
        kind = stored_type(field.type)
        _check_field_names(kind.field(number) for number in range(kind.num_fields))
