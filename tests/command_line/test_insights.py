"""``mistbow insights format``, which needs no enabler."""

from pathlib import Path

from typer.testing import CliRunner, Result

from command_line.insights import app

LAID = "-- how warm\na = COMPUTE TOP_K[3](t, 1 MINUTE) EVERY 1000 POINTS;  // often\n"


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["format", *arguments])


def test_format_prints_or_writes(tmp_path: Path) -> None:
    file = tmp_path / "warm.insights"
    file.write_text("-- how warm\n a=compute top-k[3](t,60 s) every 1 K // often\n", "utf-8")
    assert command(str(file)).stdout == LAID
    assert command(str(file), "--write").stdout == ""
    assert file.read_text("utf-8") == LAID


def test_format_reports_syntax_errors(tmp_path: Path) -> None:
    file = tmp_path / "bad.insights"
    file.write_text("a = COMPUTE\n", "utf-8")
    refused = command(str(file), "--write")
    assert refused.exit_code == 1
    assert "expected a value" in refused.stderr
    assert file.read_text("utf-8") == "a = COMPUTE\n"
    assert command("a = b", "--write").exit_code == 2
