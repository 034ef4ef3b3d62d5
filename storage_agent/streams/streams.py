"""The streams of this agent, by name."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.clock import Clock
from mistbow.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from mistbow.streams import schemas
from mistbow.streams.schemas import HORIZON, POINTS, RAW
from mistbow.telemetry import get_logger
from storage_agent.ignite_client import HISTORICAL, METADATA, IgniteClient
from storage_agent.streams.log import StreamLog
from storage_agent.streams.segment_store import SegmentStore
from storage_agent.streams.segments import no_rows, segment_key
from storage_agent.streams.writer import Writer
from storage_agent.text_cell import TextCell

REPLICAS = "replicas/"
"""What this agent keeps of other sites' streams, by site."""

RECORDS = "records/"
"""What it keeps by key, by kind."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")
_LAST = 16
_MOST_DECODED = 32 * 2**20
_RESERVED = ("info", "claim", "seek", "offset", "rows", "events", "hold")
_PREFIX = "stream/"
_INSIST_S = 5.0

log = get_logger(__name__)


Keep = Callable[[StreamLog], None]
"""Tells a log how long its rows are kept."""


class _Record(msgspec.Struct, frozen=True):
    """What Ignite keeps of a stream's making, as text: its schema as an Arrow IPC message.

    ``incarnation``: how many of this name were before; their keys are never used again, for a
    write of theirs may still be on its way. ``deleted``: it is no more, ``dropped``: nor its rows.
    """

    schema: bytes
    incarnation: int = 0
    deleted: bool = False
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: its log to read, its writer to change it."""

    log: StreamLog
    writer: Writer

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.log.name

    @property
    def incarnation(self) -> int:
        """How many streams of this name there were before."""
        return int(self.log.key.partition("@")[2] or 0)

    @property
    def timed(self) -> bool:
        """Whether this agent's clock moves its frontier."""
        return self.writer.lateness_ms is not None

    @property
    def read_schema(self) -> pa.Schema:
        """The schema of what a subscriber reads: with the horizon where rows can be late."""
        return self.log.schema.append(HORIZON) if self.timed else self.log.schema

    def info(self) -> dict[str, Any]:
        """Describe the stream."""
        log = self.log
        log.ask()
        return {
            "name": log.name,
            "fields": [{"name": field.name, "type": str(field.type)} for field in log.schema],
            "first": log.first,
            "head": log.head,
            "frontier": log.frontier,
            "epoch": log.epoch,
            "attributes": log.attributes,
            "late": log.index.late,
            "bytes": log.bytes,
            "lateness_ms": self.writer.lateness_ms,
            "segments": len(log.index),
            "rows": log.index.rows,
            "stored_bytes": log.index.bytes,
            "retention_ms": log.retention_ms(),
        }


class Streams:
    """Makes, finds and recovers streams; raises ``UnavailableError`` while Ignite is away.

    ``check`` raises for the name of a stream that is not to be served.
    """

    def __init__(self, ignite: IgniteClient, clock: Clock, lateness_ms: int, keep: Keep) -> None:
        self.epoch = 0
        self.check: Callable[[str], None] = lambda _: None
        self._ignite = ignite
        self._clock = clock
        self._lateness_ms = lateness_ms
        self._keep = keep
        self._store = SegmentStore(ignite)
        self._open: dict[str, Stream] = {}
        self._ending: dict[str, _Record] = {}
        self._deletions = 0
        self._removing = asyncio.Lock()

    async def recover(self, metadata: dict[str, Any]) -> None:
        """Open every stream that ``metadata``, the content of that cache, tells of, and raw."""
        await self._record(RAW, POINTS)
        records = {
            key.removeprefix(_PREFIX): _decoded(value)
            for key, value in metadata.items()
            if key.startswith(_PREFIX)
        }
        self._ending = {
            name: record
            for name, record in records.items()
            if record.deleted and not record.dropped
        }
        there = {name for name, record in records.items() if not record.deleted}
        for name in {RAW, *there} - set(self._open):
            await self.get(name)

    async def close(self) -> None:
        """Stop all writers."""
        for stream in self._open.values():
            await stream.writer.close()

    def all(self) -> list[Stream]:
        """Return the open streams by name."""
        return [stream for _, stream in sorted(self._open.items())]

    def stored(self) -> dict[str, list[str]]:
        """Return keys, by cache, that are in Ignite unless it has lost what was acknowledged."""
        logs = [stream.log for stream in self._open.values()]
        manifests = [log.manifest.key for log in logs if log.manifest.exists]
        return {
            METADATA: [log.state.key for log in logs] + manifests,
            HISTORICAL: [key for log in logs for key in _last_keys(log)],
        }

    async def create(self, name: str, schema: pa.Schema) -> bool:
        """Make a stream unless there is one with this schema; returns whether it was made."""
        _check_name(name)
        _check_schema(schema)
        self.check(name)
        made = await self._record(name, schema)
        try:
            stream = await self.get(name)
        except NotFoundError as error:
            raise _being_deleted(name) from error  # since it was recorded
        if not stream.log.schema.equals(schema):
            raise ConflictError(f"the stream {name} exists with another schema")
        return made

    async def get(self, name: str) -> Stream:
        """Return a stream; raises ``NotFoundError`` if there is none."""
        self.check(name)
        return await self._opened(name)

    async def _opened(self, name: str) -> Stream:
        while name not in self._open:
            if name in self._ending and not self._ending[name].deleted:
                raise _being_deleted(name)
            deletions = self._deletions
            record = await self._recorded(name)
            if record is None or record.deleted:
                hint = "PUT /streams/{name} makes one."
                raise NotFoundError(f"there is no stream {name}", hint=hint)
            log = self._log(name, record)
            await log.recover()
            # Somebody may have been faster; or have deleted it since.
            if name not in self._open and deletions == self._deletions:
                timed = self._lateness_ms if name == RAW else None
                writer = Writer(log, self._ignite, self._clock, timed, lambda: self.check(name))
                self._open[name] = Stream(log, writer)
                writer.start()
        return self._open[name]

    def opened(self, name: str) -> Stream | None:
        """Return a stream that is recovered, served or not."""
        return self._open.get(name)

    async def restore(self, name: str, schema: pa.Schema) -> Stream:
        """Make a stream of which nothing is left, not to be served yet."""
        await self._record(name, schema)
        return await self._opened(name)

    async def delete(self, name: str) -> None:
        """Have a stream be no more; another of its name may be made once its rows are removed.

        Raises ``UnavailableError`` if Ignite is not told yet; ``finish_deleting`` tells it.
        """
        stream = await self.get(name)
        record = await self._existing(name)
        if self._open.get(name) is not stream:
            raise _being_deleted(name)
        # From here on it is deleted, whatever becomes of this request.
        self._ending[name] = record
        self._deletions += 1
        del self._open[name]
        stream.log.end()
        # Nothing is acknowledged any more before it is said that the stream is no more.
        await stream.writer.close()
        await self._ignite.insist(lambda: self._tell_deleted(name), _INSIST_S)
        try:
            await self._finish(name)
        except UnavailableError as error:
            log.info("not all of a stream is removed yet", stream=name, error=error.message)

    async def finish_deleting(self) -> None:
        """Remove what is left of streams that are deleted; raises ``UnavailableError``."""
        for name in list(self._ending):
            await self._finish(name)

    async def stamp(self) -> None:
        """Have this agent, and no older one, keep the streams in order; to be called once."""
        for stream in self.all():
            await stream.log.manifest.update(lambda manifest: manifest)
            stream.log.follow_manifest()

    async def _tell_deleted(self, name: str) -> None:
        """Have Ignite know that a stream is no more; may be repeated."""
        async with self._removing:
            record = self._ending.get(name)
            if record is None or record.deleted:
                return
            self._ending[name] = await self._instead(name, record, deleted=True)

    async def _finish(self, name: str) -> None:
        """Remove the rows of a stream that is deleted; may be repeated."""
        await self._tell_deleted(name)
        async with self._removing:
            # Somebody else may have finished, here or in an agent that took over.
            if name in self._ending and await self._recorded(name) == self._ending[name]:
                await self._drop(name, self._ending[name])
            self._ending.pop(name, None)

    async def _drop(self, name: str, record: _Record) -> None:
        dropped = self._log(name, record)
        await dropped.remove_all()
        await self._ignite.remove_all(METADATA, [dropped.manifest.key, dropped.state.key])
        await self._instead(name, record, dropped=True)

    def _log(self, name: str, record: _Record) -> StreamLog:
        key = f"{name}@{record.incarnation}" if record.incarnation else name
        schema = pa.ipc.read_schema(pa.py_buffer(record.schema))
        log = StreamLog(name, schema, self._store, lambda: self.epoch, key)
        self._keep(log)
        return log

    async def _existing(self, name: str) -> _Record:
        record = await self._recorded(name)
        if record is None:
            raise NotFoundError(f"there is no stream {name}")
        return record

    async def _recorded(self, name: str) -> _Record | None:
        stored = await self._ignite.get(METADATA, _PREFIX + name)
        return None if stored is None else _decoded(stored)

    async def _record(self, name: str, schema: pa.Schema) -> bool:
        """Have a stream be recorded, unless it is; of several at once only one succeeds."""
        record = _Record(schema.remove_metadata().serialize().to_pybytes())

        def made(now: _Record | None) -> _Record:
            if now is None:
                return record
            if now.deleted and not now.dropped:
                raise _being_deleted(name)
            if now.deleted:
                return msgspec.structs.replace(record, incarnation=now.incarnation + 1)
            return now

        return await self._change(name, made)

    async def _instead(self, name: str, known: _Record, **fields: bool) -> _Record:
        """Put a changed record in the place of one; where that is not there, this had landed."""
        wanted = msgspec.structs.replace(known, **fields)
        # Or an agent that took over went on from there: what it recorded stays.
        await self._change(name, lambda now: wanted if now is None or now == known else now)
        return wanted

    async def _change(self, name: str, change: Callable[[_Record | None], _Record]) -> bool:
        """Store what ``change`` makes of a record; returns whether that is another one."""
        cell = TextCell(self._ignite, _PREFIX + name)
        while True:
            stored = await cell.load()
            wanted = _text(change(None if stored is None else _decoded(stored)))
            if wanted == stored:
                return False
            if await cell.swap(wanted):
                return True


def _last_keys(log: StreamLog) -> list[str]:
    """Return keys of commits that end a log: each is in another part of Ignite's."""
    last = range(max(0, len(log.index) - _LAST), len(log.index))
    entries = (log.index[position] for position in last)
    return [segment_key(log.key, entry.first) for entry in entries if not entry.blocks]


def _being_deleted(name: str) -> UnavailableError:
    return UnavailableError(f"the stream {name} is being deleted", hint="Try again in a moment.")


def _decoded(stored: str) -> _Record:
    return msgspec.json.decode(stored, type=_Record)


def _text(record: _Record) -> str:
    return msgspec.json.encode(record).decode()


def is_over(metadata: dict[str, Any], key: str) -> bool:
    """Tell whether ``metadata``, the content of that cache, says that a log's stream is deleted."""
    name, _, incarnation = key.partition("@")
    stored = metadata.get(_PREFIX + name)
    if stored is None:
        return False
    record = _decoded(stored)
    return record.deleted or record.incarnation > int(incarnation or 0)


def is_agents_own(name: str) -> bool:
    """Tell whether only this agent itself writes a stream."""
    return name in (RAW, schemas.METADATA) or name.startswith((REPLICAS, RECORDS))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"{name!r} is no name for a stream",
            hint="Lower-case letters, digits and . _ / - only; at most 100 of them.",
        )
    if name.rpartition("/")[2] in _RESERVED:
        raise InvalidRequestError(f"no stream's name may end in {', '.join(_RESERVED)}")


def _check_schema(schema: pa.Schema) -> None:
    try:
        names = schema.names
        no_rows(schema)
    except (UnicodeDecodeError, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(f"no stream can have these fields: {error}") from error
    if not names or len(set(names)) < len(names) or HORIZON.name in names:
        raise InvalidRequestError(
            f"a stream needs fields, all of different names, and none named {HORIZON.name}"
        )
    if "ts" in names and schema.field("ts").type != pa.int64():
        raise InvalidRequestError(
            f"ts is {schema.field('ts').type}, not int64",
            hint="It is the time of a row in milliseconds since the epoch; or name it otherwise.",
        )


def conform(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as one batch of exactly ``schema``; they may differ in dictionary encoding.

    Raises ``InvalidRequestError`` if they differ otherwise, or are not sound.
    """
    if rows.schema.names != schema.names:
        raise InvalidRequestError(f"the rows' fields are not {', '.join(schema.names)}")
    try:
        rows.validate(full=True)
        columns = [_as(rows[field.name], field) for field in schema]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, IndexError) as error:
        raise InvalidRequestError(f"the rows are not sound: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # what has no rows or too many bytes for one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if array.type != field.type and pa.types.is_dictionary(array.type):
        _check_decoded(array, field.name)
        array = array.dictionary_decode()
    if pa.types.is_dictionary(field.type) and array.type == field.type.value_type:
        array = pc.dictionary_encode(array)
    if array.type != field.type:
        raise InvalidRequestError(f"{field.name} is {array.type}, not {field.type}")
    if array.null_count and not field.nullable:
        raise InvalidRequestError(f"{field.name} may not be null")
    return array


def _check_decoded(array: pa.DictionaryArray, name: str) -> None:
    """Refuse a dictionary whose words, each repeated for its rows, would fill the memory."""
    words = array.dictionary
    if pa.types.is_primitive(words.type):
        return
    size = pc.sum(pc.binary_length(words).take(array.indices)).as_py() or 0
    if size > _MOST_DECODED:
        raise TooLargeError(
            f"{name} unpacks to more than {_MOST_DECODED} bytes", hint="Send fewer rows at once."
        )
