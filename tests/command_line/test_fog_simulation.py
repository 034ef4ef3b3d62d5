"""``mistbow fog simulate``."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line.fog import app
from mistbow.errors import InvalidRequestError

SAMPLE = Path(__file__).parents[2] / "examples" / "round-trips.csv"
SMALL = ["--nodes", "20", "--insights", "4", "--hours", "0.5"]


def failure(*arguments: str) -> str:
    """Return the error of a simulation, without a trace."""
    run = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    assert run.exit_code != 0
    if isinstance(run.exception, SystemExit):
        return run.output
    assert isinstance(run.exception, InvalidRequestError), run.exception
    return str(run.exception)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is square"),
        (b"0\n", "no measured pair of sites"),
        (b"0,0\n0,0\n", "no measured pair of sites"),
        (b"0,1\n", "is square"),
        (b"0,-1\n1,0\n", "from 0 to"),
        (b"0,nan\n1,0\n", "from 0 to"),
        (b"0,1e308\n1e308,0\n", "from 0 to"),
        (b"a,b\nc,d\n", "could not convert"),
        (b"\xff\xfe", "decode"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_odd_matrix_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "odd.csv").write_bytes(content)
    assert problem in failure("--topology", f"matrix:{tmp_path / 'odd.csv'}")


def test_cut_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"0,1\n1,0\n" * 99)[:25])
    assert "cannot be read" in failure("--topology", f"matrix:{tmp_path / 'cut.csv.gz'}")


@pytest.mark.parametrize("document", ["{}", '{"nodes": []}', "[]", "nodes"])
def test_odd_snapshot_is_refused(tmp_path: Path, document: str) -> None:
    (tmp_path / "fog.json").write_text(document)
    assert "cannot be read" in failure("--topology", str(tmp_path / "fog.json"))


@pytest.mark.parametrize(
    "arguments",
    [("--hours", "inf"), ("--hours", "nan"), ("--hours", "0"), ("--nodes", "0")],
)
def test_impossible_amounts_are_refused(arguments: tuple[str, str]) -> None:
    assert "Invalid value" in failure(*arguments)


def test_parts_without_a_path_are_reported(tmp_path: Path) -> None:
    """Two pairs of sites without a path between them, and a name like markup."""
    (tmp_path / "[bold].csv").write_text("0,1,0,0\n1,0,0,0\n0,0,0,5\n0,0,5,0\n")
    arguments = ["--topology", f"matrix:{tmp_path / '[bold].csv'}", "--scheduler", "fair"]
    run = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    assert run.exit_code == 0, run.output
    assert "[bold]" in run.stdout
    [row] = [line for line in run.stdout.splitlines() if "no known path" in line]
    assert "0.5" in row


@pytest.mark.parametrize("is_drained", [False, True])
def test_simulation_of_a_snapshot_omits_drained_workers(tmp_path: Path, is_drained: bool) -> None:
    nodes = [
        {"name": name, "site": name, "cores": 4, "cores_free": 4, "drained": drained}
        for name, drained in (("near", False), ("far", is_drained))
    ]
    memory = {"memory_mb": 4096, "memory_free_mb": 4096}
    document = {"nodes": [{**each, **memory} for each in nodes]}
    (tmp_path / "fog.json").write_text(json.dumps(document))
    arguments = ["--topology", str(tmp_path / "fog.json"), "--scheduler", "fair"]
    run = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    assert run.exit_code == 0, run.output
    # A long path of the file wraps the lines.
    assert f"{1 if is_drained else 2} sites" in " ".join(run.stdout.split())


def test_only_suspected_workers_give_no_latency(tmp_path: Path) -> None:
    node = {"name": "a", "site": "a", "cores": 4, "cores_free": 4, "suspected": True}
    document = {"nodes": [{**node, "memory_mb": 4096, "memory_free_mb": 4096}]}
    (tmp_path / "fog.json").write_text(json.dumps(document))
    arguments = ["--topology", str(tmp_path / "fog.json"), "--scheduler", "fair"]
    run = CliRunner().invoke(app, ["simulate", *SMALL, *arguments])
    [row] = [line for line in run.stdout.splitlines() if "latency" in line]
    assert row.replace("│", " ").split()[-1] == "-"


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
