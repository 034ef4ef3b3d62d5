"""What ``mistbow backup`` prints and leaves."""

from pathlib import Path

from typer.testing import CliRunner

from command_line.app import app
from mistbow.client import Point
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import POINTS


def test_lines_are_not_wrapped_in_a_pipe(url: str, client: AgentClient, tmp_path: Path) -> None:
    stream, place = "long/" + "name" * 20, tmp_path / ("folder" * 20)
    client.put([Point("cpu", "a", 1, 1.0)])
    client.create_stream(stream, POINTS)
    done = CliRunner().invoke(app, ["backup", str(place), "--url", url], env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    *streams, summary = done.stdout.splitlines()
    assert f"copied {stream}" in streams
    assert f" in {place}: " in summary
    assert summary.endswith(" UTC")


def test_backup_of_an_unknown_site_leaves_no_folder(url: str, tmp_path: Path) -> None:
    place = tmp_path / "new"
    done = CliRunner().invoke(app, ["backup", str(place), "--url", url, "--site", "nope"])
    assert done.exit_code != 0
    assert not place.exists()
