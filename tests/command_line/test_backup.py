"""``mistbow restore``: what it refuses before it starts Ignite."""

from pathlib import Path

from typer.testing import CliRunner

from command_line.app import app
from mistbow.errors import ConflictError
from storage_agent.backup.archive import Archive, BackupContents


def test_restoration_to_memory_is_refused_before_ignite_starts(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path / "backup"))
    series = archive.write("series.jsonl", b"")
    archive.finish(
        BackupContents(format=1, id="b", site="a", node="a", cut=1, streams=(), series=series)
    )
    home = tmp_path / "home"
    arguments = ["restore", str(tmp_path / "backup"), "--home", str(home)]
    done = CliRunner().invoke(app, arguments, env={"MISTBOW_DURABILITY": "memory"})
    assert isinstance(done.exception, ConflictError)
    assert "MISTBOW_DURABILITY=memory" in done.exception.message
    assert "fsync or log" in (done.exception.hint or "")
    assert not (home / "ignite").exists()
