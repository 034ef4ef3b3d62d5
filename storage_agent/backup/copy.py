"""Copies a running site to an archive, through the API of its agent."""

from collections.abc import Callable, Iterator
from contextlib import suppress

from mistbow.client.agent import AgentClient
from mistbow.client.backup_model import BackupCut, StreamCut, StreamDeletions
from mistbow.errors import MistbowError, NotFoundError
from storage_agent.backup.archive import (
    FORMAT,
    Archive,
    BackupContents,
    BackupStream,
    PartFile,
)
from storage_agent.backup.parts import decode_part

Report = Callable[[str], None]
"""A function that shows the progress: it receives the name of each copied stream."""


def back_up(client: AgentClient, archive: Archive, report: Report = lambda _: None) -> BackupCut:
    """Write a backup of the site that ``client`` addresses; return its cut.

    Raises ``UnavailableError`` while points wait in the spool, ``ConflictError`` if the archive
    contains a backup, and ``LostDataError`` if a stream lost rows.
    """
    archive.check_new()
    # The folder is created by the first file: an agent that refuses the backup leaves none.
    cut = client.operations.begin_backup()
    try:
        copy = _Copy(client, archive, cut)
        parts = {}
        for each in cut.streams:
            with suppress(NotFoundError):  # it was deleted meanwhile
                parts[each.name] = list(copy.parts(each))
                report(each.name)
        lines = client.operations.backup_series(cut.id)
        series = archive.write("series.jsonl", lines)
        deletions = client.operations.backup_deletions(cut.id)
        streams = tuple(
            BackupStream(
                cut=each,
                deletions=deletions[each.name],
                parts=tuple(copy.without_newer(parts[each.name], each, deletions[each.name])),
            )
            for each in cut.streams
            if each.name in parts
        )
    except ValueError as error:
        raise MistbowError(f"the agent has answered an impossible cut: {error}") from error
    finally:
        with suppress(MistbowError):  # the agent ends it by itself
            client.operations.end_backup(cut.id)
    archive.finish(
        BackupContents(
            format=FORMAT,
            id=cut.id,
            site=cut.site,
            node=cut.node,
            cut=cut.cut,
            series=series,
            streams=streams,
            configuration=cut.configuration,
        )
    )
    return cut


class _Copy:
    """Copies the parts of streams."""

    def __init__(self, client: AgentClient, archive: Archive, cut: BackupCut) -> None:
        self._client = client
        self._archive = archive
        self._cut = cut
        self._folders = {each.name: number for number, each in enumerate(cut.streams)}

    def parts(self, stream: StreamCut) -> Iterator[PartFile]:
        """Copy the parts of a stream, and yield the file of each; the last ends at the head."""
        position = 0
        while position < stream.head:
            part = self._part(stream, position)
            if part is None:
                return
            yield part
            position = part.next

    def without_newer(
        self, parts: list[PartFile], stream: StreamCut, deletions: StreamDeletions
    ) -> list[PartFile]:
        """Return the parts to restore.

        A tombstone that ends inside a part, and came after the part was read, cannot be applied
        to the whole part: the part is read again. Rows before a gap were evicted meanwhile.
        """
        kept: list[PartFile] = []
        for part in parts:
            if kept and part.first != kept[-1].next:
                kept = []
            if any(
                part.first < each["before"] < part.next and each["id"] > part.last_tombstone
                for each in deletions.tombstones
            ):
                again = self._part(stream, part.first)
                if again is None or (again.first, again.next) != (part.first, part.next):
                    raise MistbowError(
                        f"the rows of {stream.name} changed during the backup",
                        hint="Repeat the backup.",
                    )
                part = again
            kept.append(part)
        return kept

    def _part(self, stream: StreamCut, position: int) -> PartFile | None:
        data = self._client.operations.backup_part(self._cut.id, stream.name, position)
        if not data:
            return None
        part = decode_part(data)
        first, stop = part.header.first, part.header.next
        file = self._archive.write(f"streams/{self._folders[stream.name]}/{first:020}.arrow", data)
        return PartFile(
            path=file.path,
            bytes=file.bytes,
            sha256=file.sha256,
            first=first,
            next=stop,
            rows=part.rows.num_rows,
            last_tombstone=part.header.last_tombstone,
        )
