"""``mistbow fog simulate``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line.fog import app

SAMPLE = Path(__file__).parents[2] / "examples" / "round-trips.csv"
SMALL = ["--nodes", "20", "--insights", "4", "--hours", "0.5"]


# At its first use on a machine, matplotlib lists the fonts by a process.
@pytest.mark.usefixtures("processes")
def test_simulate_prints_table_and_writes_results_and_plot(tmp_path: Path) -> None:
    arguments = ["simulate", "--topology", f"matrix:{SAMPLE}", *SMALL, "--out", str(tmp_path)]
    run = CliRunner().invoke(app, [*arguments, "--scheduler", "fair", "--scheduler", "greedy"])
    assert run.exit_code == 0, run.output
    assert "latency p50, p90 (ms)" in run.stdout
    results = json.loads((tmp_path / "results.json").read_text())
    assert [each["scenario"]["scheduler"] for each in results] == ["fair", "greedy"]
    assert set(json.loads((tmp_path / "times.json").read_text())) == {"fair", "greedy"}
    plot = (tmp_path / "plot.svg").read_bytes()
    assert plot.startswith(b"<?xml")
    CliRunner().invoke(app, [*arguments, "--scheduler", "fair", "--scheduler", "greedy"])
    assert (tmp_path / "plot.svg").read_bytes() == plot
    assert json.loads((tmp_path / "results.json").read_text()) == results
