"""The backups that clients read from a running agent.

A backup ends at the cut: the heads of all streams at one moment. So it contains every row that was
acknowledged before, and no result of points that it lacks. Until the client ends the backup, the
streams are not compacted: compaction would drop events of the cut that later events replace.
"""

import asyncio
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from mistbow.client.backup_model import BackupCut, StreamCut, StreamDeletions
from mistbow.clock import Clock
from mistbow.errors import NotFoundError
from mistbow.failure_detector import Seconds
from mistbow.telemetry import get_logger
from storage_agent.backup.parts import encode_part, read_part
from storage_agent.settings import AgentSettings
from storage_agent.streams.maintenance import Maintenance
from storage_agent.streams.manifest import Manifest
from storage_agent.streams.stream_record import new_record
from storage_agent.streams.streams import Stream, Streams
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.selection import SeriesSelection

log = get_logger(__name__)

_UNUSED_S = 900.0
"""The time (s) after which a backup ends if its client requests and reads nothing.

A slow link may need minutes for one part, and so may an object store to which the client writes it.
"""

_LINES = 500


@dataclass(slots=True)
class _Backup:
    """A backup that a client reads: its cut, and its streams with their heads at the cut.

    ``used``: when the client last requested or read anything (s, monotonic clock).
    """

    cut: BackupCut
    streams: dict[str, tuple[Stream, StreamCut]]
    used: float

    @property
    def id(self) -> str:
        return self.cut.id


class Backups:
    """Begins and ends backups, and reads the parts of their streams.

    ``monotonic``: returns a time (s) that never goes back.
    """

    def __init__(
        self, settings: AgentSettings, clock: Clock, monotonic: Seconds = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._backups: dict[str, _Backup] = {}

    async def begin(
        self, streams: Streams, maintenance: Maintenance, configuration: dict[str, object]
    ) -> BackupCut:
        """Begin a backup, and return its cut.

        Raises ``LostDataError`` if a stream lost rows.
        """
        async with maintenance.suspended():
            for stream in streams.all():
                streams.check(stream.name)
            cuts = {stream.name: (stream, _cut_of(stream)) for stream in streams.all()}
            cut = BackupCut(
                id=secrets.token_hex(8),
                site=self._settings.site,
                node=self._settings.node,
                cut=self._clock(),
                streams=tuple(each for _, each in cuts.values()),
                configuration=configuration,
            )
            for stream, _ in cuts.values():
                stream.log.backups.add(cut.id)
        self._backups[cut.id] = _Backup(cut, cuts, self._monotonic())
        log.info("backup_began", backup=cut.id, streams=len(cuts))
        return cut

    async def part(self, backup: str, name: str, start: int) -> bytes:
        """Return the encoded part of a stream that begins at ``start``; empty: no rows follow.

        Raises ``NotFoundError`` if the backup has ended, or if the stream was deleted.
        """
        found = self._find(backup)
        stream, cut = found.streams.get(name, (None, None))
        if stream is None or cut is None or found.id not in stream.log.backups:
            raise NotFoundError(f"the backup {backup} has no stream {name}")
        if stream.log.is_removed:
            raise NotFoundError(f"the stream {name} was deleted")
        part = await read_part(stream.log, start, cut.head, cut.released)
        return b"" if part is None else await asyncio.to_thread(encode_part, part)

    def series(self, backup: str, catalogue: Catalogue) -> Iterator[bytes]:
        """Yield the metadata of the present series as lines of JSON, several lines at a time.

        The series are selected at once, since a thread may read the lines. The backup does not end
        while the client reads them.
        """
        return self._lines(self._find(backup), catalogue.select())

    async def deletions(self, backup: str) -> bytes:
        """Return the present tombstones of the streams, by the name of the stream, as JSON."""
        streams = self._find(backup).streams
        manifests = {name: each.log.manifest.current for name, (each, _) in streams.items()}
        return await asyncio.to_thread(_encode_deletions, manifests)

    def end(self, backup: str) -> None:
        """End a backup; does nothing if it has ended."""
        found = self._backups.pop(backup, None)
        if found is not None:
            for stream, _ in found.streams.values():
                stream.log.backups.discard(backup)
            log.info("backup_ended", backup=backup)

    def end_unused(self) -> None:
        """End the backups whose clients have requested and read nothing for 15 minutes."""
        now = self._monotonic()
        for each in list(self._backups.values()):
            if now - each.used > _UNUSED_S:
                log.warning("backup_abandoned", backup=each.id)
                self.end(each.id)

    def _find(self, backup: str) -> _Backup:
        found = self._backups.get(backup)
        if found is None:
            raise NotFoundError(
                f"there is no backup {backup}",
                hint="The backup ended, or the agent was restarted. Begin a new backup.",
            )
        found.used = self._monotonic()
        return found

    def _lines(self, backup: _Backup, series: SeriesSelection) -> Iterator[bytes]:
        lines: list[bytes] = []
        for metadata in series.values():
            lines.append(msgspec.json.encode(metadata) + b"\n")
            if len(lines) == _LINES:
                yield b"".join(lines)
                backup.used = self._monotonic()
                lines = []
        yield b"".join(lines)
        backup.used = self._monotonic()


def _cut_of(stream: Stream) -> StreamCut:
    log = stream.log
    return StreamCut(
        name=log.name,
        schema=new_record(log.schema).schema,
        head=log.head,
        frontier=log.frontier,
        epoch=max(log.epoch, log.state.current.epoch),
        released=log.future_points.released,
        incarnation=stream.incarnation,
        attributes=log.attributes,
    )


def _encode_deletions(manifests: dict[str, Manifest]) -> bytes:
    deletions = {
        name: StreamDeletions(
            last=each.last_tombstone, tombstones=tuple(msgspec.to_builtins(each.tombstones))
        )
        for name, each in manifests.items()
    }
    return msgspec.json.encode(deletions)
