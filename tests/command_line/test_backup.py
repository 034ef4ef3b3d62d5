"""``mistbow restore``: what it refuses before it starts Ignite."""

from pathlib import Path

from typer.testing import CliRunner

from command_line.app import app
from mistbow.errors import ConflictError, MistbowError
from storage_agent.backup.archive import Archive, BackupContents


def write_backup(place: Path) -> None:
    """Write a backup without streams."""
    archive = Archive(str(place))
    series = archive.write("series.jsonl", b"")
    archive.finish(
        BackupContents(format=1, id="b", site="a", node="a", cut=1, streams=(), series=series)
    )


def test_restoration_to_memory_is_refused_before_ignite_starts(tmp_path: Path) -> None:
    write_backup(tmp_path / "backup")
    home = tmp_path / "home"
    arguments = ["restore", str(tmp_path / "backup"), "--home", str(home)]
    done = CliRunner().invoke(app, arguments, env={"MISTBOW_DURABILITY": "memory"})
    assert isinstance(done.exception, ConflictError)
    assert "MISTBOW_DURABILITY=memory" in done.exception.message
    assert "fsync or log" in (done.exception.hint or "")
    assert not (home / "ignite").exists()


def test_restoration_of_a_damaged_backup_is_refused_before_anything_is_created(
    tmp_path: Path,
) -> None:
    backup, home = tmp_path / "backup", tmp_path / "home"
    write_backup(backup)
    arguments = ["restore", str(backup), "--home", str(home)]
    (backup / "series.jsonl").unlink()
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, MistbowError)
    assert "the file series.jsonl" in done.exception.message
    contents = (backup / "backup.json").read_text()
    for damaged in (contents[:-20], contents.replace('"site": "a"', '"site": "b"')):
        (backup / "backup.json").write_text(damaged)
        done = CliRunner().invoke(app, arguments)
        assert isinstance(done.exception, MistbowError)
        assert "backup.json is damaged" in done.exception.message
        assert done.exception.hint == "Restore another backup."
    assert not (home / "ignite").exists()
