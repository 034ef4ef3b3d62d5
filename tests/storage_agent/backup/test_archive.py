"""The place of a backup, in a folder or a file system of pyarrow."""

from pathlib import Path

import pytest

from mistbow.errors import ConflictError, InvalidRequestError, MistbowError
from storage_agent.backup.archive import Archive, BackupContents, BackupFile


@pytest.mark.parametrize("location", ["", " "])
def test_empty_place_is_refused(location: str) -> None:
    """A shell's unset variable wrote the backup to the working folder."""
    with pytest.raises(InvalidRequestError, match="the place of the backup is empty"):
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
    assert archive.contents() == contents
    (tmp_path / "backup.json").write_text(
        (tmp_path / "backup.json").read_text().replace("series.jsonl", path)
    )
    with pytest.raises(MistbowError, match=f"the file {path} is outside the backup"):
        archive.contents()
