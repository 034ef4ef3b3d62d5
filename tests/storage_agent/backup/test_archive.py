"""The place of a backup, in a folder or a file system of pyarrow."""

from pathlib import Path

import msgspec
import pytest

from mistbow.client.backup_model import StreamCut, StreamDeletions
from mistbow.errors import ConflictError, InvalidRequestError, MistbowError, NotFoundError
from mistbow.streams.schemas import EVENTS
from storage_agent.backup.archive import (
    Archive,
    BackupContents,
    BackupFile,
    BackupStream,
    PartFile,
)


@pytest.mark.parametrize("location", ["", " "])
def test_empty_place_is_refused(location: str) -> None:
    """A shell's unset variable wrote the backup to the working folder."""
    with pytest.raises(InvalidRequestError, match="the location of the backup is empty"):
        Archive(location)


def test_error_names_no_credentials_of_a_place() -> None:
    with pytest.raises(InvalidRequestError, match="neither a folder nor the URI") as caught:
        Archive("nothing://key:secret@bucket/path")
    assert "secret" not in str(caught.value)
    assert "://…@bucket/path" in str(caught.value)


def test_place_without_a_folder_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="s3:// names no folder"):
        Archive("s3://")


@pytest.mark.parametrize("content", ['{"format": 2, "parts": []}', '{"format": 0}'])
def test_backup_of_another_format_is_not_called_damaged(content: str, tmp_path: Path) -> None:
    (tmp_path / "backup.json").write_text(content)
    with pytest.raises(ConflictError, match=r"has the format .; this version reads 1"):
        Archive(str(tmp_path)).contents()


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}', b"\xff\xfe", b"[]"])
def test_damaged_contents_are_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "backup.json").write_bytes(content)
    with pytest.raises(MistbowError, match=r"backup\.json is damaged"):
        Archive(str(tmp_path)).contents()


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "streams/../../secret"])
def test_file_outside_the_backup_is_refused(path: str, tmp_path: Path) -> None:
    """A backup that somebody has changed made the restore read other files of the machine."""
    file = BackupFile(path="series.jsonl", bytes=1, sha256="")
    contents = BackupContents(format=1, id="b", site="a", node="a", cut=1, streams=(), series=file)
    archive = Archive(str(tmp_path))
    archive.finish(contents)
    assert msgspec.structs.replace(archive.contents(), sha256="") == contents
    (tmp_path / "backup.json").write_text(
        (tmp_path / "backup.json").read_text().replace("series.jsonl", path)
    )
    with pytest.raises(MistbowError, match=f"the file {path} is outside the backup"):
        archive.contents()


def stored(archive: Archive) -> BackupContents:
    """Store a backup of one stream with two parts, and return its contents."""
    parts = []
    for first in (0, 4):
        file = archive.write(f"streams/0/{first}.arrow", b"rows")
        described = msgspec.structs.asdict(file)
        parts.append(PartFile(**described, first=first, next=first + 4, rows=4, last_tombstone=0))
    cut = StreamCut(
        name="deployments", schema=EVENTS.serialize().to_pybytes(), head=8, frontier=9, epoch=3
    )
    tombstone = {"id": 1, "before": 9, "created": 7, "columns": ["key"], "keys": [["a"]]}
    deletions = StreamDeletions(last=1, tombstones=(tombstone,))
    stream = BackupStream(cut=cut, deletions=deletions, parts=tuple(parts))
    series = archive.write("series.jsonl", b"{}")
    archive.finish(
        BackupContents(
            format=1,
            id="b",
            site="a",
            node="a",
            cut=1,
            series=series,
            streams=(stream,),
            configuration={"sha256": ""},
        )
    )
    return archive.contents()


def test_shortened_contents_are_refused(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    stored(archive)
    file = tmp_path / "backup.json"
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(MistbowError, match=r"backup\.json is damaged"):
            archive.contents()


def test_contents_with_one_changed_byte_are_refused(tmp_path: Path) -> None:
    """A changed head, a changed schema or a changed name was restored as if it were right."""
    archive = Archive(str(tmp_path))
    stored(archive)
    file = tmp_path / "backup.json"
    whole = file.read_bytes()
    for position, byte in enumerate(whole):
        changed = bytearray(whole)
        changed[position] = byte ^ 1
        file.write_bytes(changed)
        with pytest.raises(MistbowError, match=r"is damaged|has the format"):
            archive.contents()


def test_contents_of_an_earlier_version_have_no_hash(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    contents = msgspec.structs.replace(stored(archive), sha256="")
    (tmp_path / "backup.json").write_bytes(msgspec.json.encode(contents))
    assert archive.contents() == contents


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"head":8', '"head":7', "impossible positions"),
        ('"first":4', '"first":5', "a part of the stream deployments is missing"),
        ('"before":9', '"before":"x"', "the stream deployments cannot be read"),
        ('"schema":"/', '"schema":"A', "the stream deployments cannot be read"),
    ],
)
def test_impossible_contents_of_an_earlier_version_are_refused(
    old: str, new: str, problem: str, tmp_path: Path
) -> None:
    archive = Archive(str(tmp_path))
    contents = msgspec.structs.replace(stored(archive), sha256="")
    text = msgspec.json.encode(contents).decode()
    assert old in text
    (tmp_path / "backup.json").write_text(text.replace(old, new))
    with pytest.raises(MistbowError, match=rf"backup\.json is damaged: .*{problem}"):
        archive.contents()


def test_missing_and_shortened_files_are_named(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    contents = stored(archive)
    archive.check_files(contents)
    part = tmp_path / "streams/0/4.arrow"
    part.write_bytes(b"row")
    with pytest.raises(MistbowError, match=r"4\.arrow .* damaged: it has 3 bytes instead of 4"):
        archive.check_files(contents)
    part.unlink()
    with pytest.raises(MistbowError, match=r"the file streams/0/4\.arrow .* is missing"):
        archive.check_files(contents)


def test_backup_outside_of_the_file_system_of_this_machine_is_stored_and_read() -> None:
    archive = Archive("mock:///backups/edge-1")  # a file system of pyarrow in memory
    archive.check_new()
    with pytest.raises(NotFoundError, match="contains no complete backup"):
        archive.contents()
    contents = stored(archive)
    archive.check_files(contents)
    assert [archive.read(file) for file in contents.files] == [b"{}", b"rows", b"rows"]
    with pytest.raises(ConflictError, match=r"mock:///backups/edge-1 contains a backup"):
        archive.check_new()
    archive.write("streams/0/4.arrow", b"row")
    with pytest.raises(MistbowError, match=r"4\.arrow .* damaged: it has 3 bytes instead of 4"):
        archive.check_files(contents)
