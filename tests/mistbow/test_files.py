"""Files that are replaced as a whole."""

from pathlib import Path

import pytest

from mistbow.files import file_stamp, write_file


def test_stamp_differs_between_versions_and_is_zero_for_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert file_stamp(path) == (0, 0, 0)
    write_file(path, b"one")
    before = file_stamp(path)
    assert file_stamp(path) == before
    write_file(path, b"two")
    assert file_stamp(path) != before


def test_file_has_the_given_mode_also_if_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"public")
    path.chmod(0o666)
    write_file(path, b"secret", 0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"secret", 0o600)


def test_file_has_the_mode_of_another_one(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    other.write_bytes(b"")
    other.chmod(0o640)
    write_file(path, b"content", like=other)
    status, wanted = path.stat(), other.stat()
    assert (status.st_mode, status.st_uid, status.st_gid) == (
        wanted.st_mode,
        wanted.st_uid,
        wanted.st_gid,
    )


def test_failed_write_leaves_the_former_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_file(path, b"former")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mistbow.files.os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"latter")
    assert path.read_bytes() == b"former"
    assert list(tmp_path.iterdir()) == [path]
