"""The logs of child processes: without secrets, and on a full disk without an error."""

import contextlib
import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from suite.child_logs import FileLog, StdoutLog

_SECRET = "the-token-of-the-fog"  # noqa: S105 - of no fog
_LINE = f"mistbow: the request had the token {_SECRET}"


def test_secrets_are_masked_in_files_and_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = io.StringIO()
    files = FileLog(tmp_path / "logs", Console(file=terminal), [_SECRET])
    for output in (files, StdoutLog([_SECRET])):
        output.open("agent")
        output.line("agent", _LINE)
    files.close()
    written = (tmp_path / "logs" / "agent.log").read_text()
    for text in (written, terminal.getvalue(), capsys.readouterr().out):
        assert "had the token [hidden]" in text
        assert _SECRET not in text


def test_lines_that_a_full_disk_does_not_take_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agent.log").symlink_to("/dev/full")
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 - it cannot be closed
    try:
        files = FileLog(tmp_path, Console(file=full))
        files.open("agent")
        for _ in range(3):
            files.line("agent", _LINE)
            files.report("it continues")
        files.close()
        monkeypatch.setattr(sys, "stdout", full)
        StdoutLog().report("it continues")
        monkeypatch.undo()
    finally:
        with contextlib.suppress(OSError):
            full.close()
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("No space left on device; free space on this disk")
