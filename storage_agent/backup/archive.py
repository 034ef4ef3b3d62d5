"""The files of a backup, in a folder or in any file system of pyarrow."""

import hashlib
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import fs

from mistbow.client.backup_model import StreamCut, StreamDeletions
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError, NotFoundError
from storage_agent.streams.manifest import Tombstone
from storage_agent.streams.stream_record import StreamRecord, schema_of

_CONTENTS = "backup.json"
FORMAT = 1
_RESTORE_ANOTHER = "Restore another backup."
_HINT = "For example /backups/edge-1, s3://bucket/edge-1 or file:///backups/edge-1."


def _without_credentials(location: str) -> str:
    """Return a location without the name and the password in its URI.

    >>> _without_credentials("s3://key:secret@bucket/path"), _without_credentials("/a@b")
    ('s3://…@bucket/path', '/a@b')
    """
    return re.sub("://[^/]*@", "://…@", location)


class BackupFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a backup: its path in the backup, its size, and the hash of its content."""

    path: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"the file {self.path} is outside the backup")


class PartFile(BackupFile, frozen=True, kw_only=True):
    """The file of a part, with the positions and the last applied tombstone of the part."""

    first: int
    next: int
    rows: int
    last_tombstone: int


class BackupStream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of a backup: its state at the cut, its parts, and its tombstones."""

    cut: StreamCut
    deletions: StreamDeletions
    parts: tuple[PartFile, ...]

    def __post_init__(self) -> None:
        name, head = self.cut.name, self.cut.head
        if any(part.next != after.first for part, after in pairwise(self.parts)):
            raise ValueError(f"a part of the stream {name} is missing")
        if any(not 0 <= part.first < part.next <= head for part in self.parts):
            raise ValueError(f"a part of the stream {name} has impossible positions")
        try:
            self.schema()
            self.tombstones()
        except (pa.ArrowException, OSError, msgspec.ValidationError) as error:
            raise ValueError(f"the stream {name} cannot be read: {error}") from error

    def schema(self) -> pa.Schema:
        """Return the schema of the stream."""
        return schema_of(StreamRecord(self.cut.schema))

    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones of the stream; none applies to rows after the cut."""
        found = msgspec.convert(self.deletions.tombstones, list[Tombstone])
        return [
            msgspec.structs.replace(each, before=min(each.before, self.cut.head)) for each in found
        ]


class _BackupFormat(msgspec.Struct, frozen=True):
    """The field of the contents that all formats have."""

    format: int


class BackupContents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a backup. ``cut``: the time (ms) at which the backup ends.

    ``sha256``: the hash of the file with these contents, computed with an empty ``sha256``; empty
    in backups of earlier versions. It is the last field.
    """

    format: int
    id: str
    site: str
    node: str
    cut: int
    series: BackupFile
    streams: tuple[BackupStream, ...]
    configuration: dict[str, Any] = {}
    sha256: str = ""

    @property
    def files(self) -> list[BackupFile]:
        """All files of the backup but this one."""
        return [self.series, *(part for each in self.streams for part in each.parts)]


def _unknown_fields(data: bytes) -> list[str]:
    """Return the names of the fields of encoded contents that ``BackupContents`` does not have."""
    known = {each.name for each in msgspec.structs.fields(BackupContents)}
    return sorted(msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys() - known)


def _with_hash(data: bytes, old: str, new: str) -> bytes:
    """Return encoded contents with another hash of themselves."""
    before, mark, after = data.rpartition(f'"sha256": "{old}"'.encode())
    return before + mark.replace(f'"{old}"'.encode(), f'"{new}"'.encode()) + after


class Archive:
    """Writes and reads the files of one backup.

    ``location``: a folder, or a URI such as ``s3://bucket/path`` or ``gs://bucket/path``; the
    attribute has no credentials.
    """

    def __init__(self, location: str) -> None:
        if not location.strip():
            raise InvalidRequestError("the location of the backup is empty", hint=_HINT)
        self.location = _without_credentials(location)
        try:
            if "://" in location:
                self._files, self._root = fs.FileSystem.from_uri(location)
            else:
                self._files, self._root = fs.LocalFileSystem(), str(Path(location).absolute())
        except (ValueError, OSError) as error:
            reason = str(error).replace(location, self.location)
            raise InvalidRequestError(
                f"{self.location} is neither a folder nor the URI of a file system: {reason}",
                hint=_HINT,
            ) from error
        if not self._root:
            raise InvalidRequestError(f"{self.location} names no folder", hint=_HINT)

    def check_new(self) -> None:
        """Raise ``ConflictError`` if the folder contains a backup."""
        if self._exists(_CONTENTS):
            raise ConflictError(
                f"{self.location} contains a backup", hint="Choose another folder for this one."
            )

    def write(self, path: str, data: bytes) -> BackupFile:
        """Write a file, and return its description."""
        folder = f"{self._root}/{path}".rpartition("/")[0]

        def write() -> None:
            self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(f"{self._root}/{path}") as file:
                file.write(data)

        self._do(write)
        return BackupFile(path=path, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def finish(self, contents: BackupContents) -> None:
        """Write the contents; only then the backup is complete."""
        if isinstance(self._files, fs.LocalFileSystem):
            os.sync()
        unsigned = msgspec.structs.replace(contents, sha256="")
        data = msgspec.json.format(msgspec.json.encode(unsigned))
        self.write(_CONTENTS, _with_hash(data, "", hashlib.sha256(data).hexdigest()))
        if isinstance(self._files, fs.LocalFileSystem):
            os.sync()

    def contents(self) -> BackupContents:
        """Return the contents; raises ``NotFoundError`` if there is no complete backup."""
        if not self._exists(_CONTENTS):
            raise NotFoundError(
                f"{self.location} contains no complete backup: it has no file {_CONTENTS}"
            )
        data = self._read(_CONTENTS)
        try:
            # Another format may have other fields.
            number = msgspec.json.decode(data, type=_BackupFormat).format
            if number != FORMAT:
                raise ConflictError(
                    f"{self.location} has the format {number}; this version reads {FORMAT}",
                    hint="Restore it with the version of Mistbow that wrote it.",
                )
            contents = msgspec.json.decode(data, type=BackupContents)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._damaged(str(error)) from error
        expected = contents.sha256
        # A damaged name of a field is an unknown field. Without a hash, nothing else shows it.
        if not expected and (unknown := _unknown_fields(data)):
            raise self._damaged(f"it has the unknown field {unknown[0]!r}")
        if expected and expected != hashlib.sha256(_with_hash(data, expected, "")).hexdigest():
            raise self._damaged("its SHA-256 does not match its content")
        return contents

    def check_files(self, contents: BackupContents) -> None:
        """Raise ``MistbowError`` if a file of the backup is missing, or has another size."""
        # One listing: an object store answers requests for single files one after the other.
        all_files = fs.FileSelector(self._root, recursive=True)
        infos = {each.path: each for each in self._do(lambda: self._files.get_file_info(all_files))}
        for file in contents.files:
            info = infos.get(f"{self._root}/{file.path}")
            if info is None or info.type != fs.FileType.File:
                raise MistbowError(
                    f"the file {file.path} of the backup {self.location} is missing",
                    hint=_RESTORE_ANOTHER,
                )
            if info.size != file.bytes:
                raise MistbowError(
                    f"the file {file.path} of the backup {self.location} is damaged: it has "
                    f"{info.size} bytes instead of {file.bytes}",
                    hint=_RESTORE_ANOTHER,
                )

    def read(self, file: BackupFile) -> bytes:
        """Return the content of a file; raises ``MistbowError`` if it is damaged or missing."""
        data = self._read(file.path)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise MistbowError(
                f"the file {file.path} of the backup {self.location} is damaged",
                hint=_RESTORE_ANOTHER,
            )
        return data

    def _damaged(self, reason: str) -> MistbowError:
        return MistbowError(
            f"{self.location}/{_CONTENTS} is damaged: {reason}", hint=_RESTORE_ANOTHER
        )

    def _read(self, path: str) -> bytes:
        def read() -> bytes:
            with self._files.open_input_stream(f"{self._root}/{path}") as file:
                return bytes(file.read())

        data: bytes = self._do(read)
        return data

    def _exists(self, path: str) -> bool:
        info = self._do(lambda: self._files.get_file_info(f"{self._root}/{path}"))
        return bool(info.type == fs.FileType.File)

    def _do(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except OSError as error:
            raise MistbowError(f"{self.location}: {error}") from error
