"""The commands of the page about operations, run with programs that write a log of their words."""

import re
import subprocess
from pathlib import Path

import pytest

from deploy import image
from deploy.certificates import FogCertificates
from tests.deployment.test_compose import AGENTS, SERVICES


def _commands_after(title: str) -> str:
    """Return the first commands of a section of the page about operations."""
    page = (image.ROOT / "docs" / "operations.md").read_text()
    _, _, rest = page.partition(f"### {title}")
    block = re.search(r"```sh\n(.*?)```", rest, re.DOTALL)
    assert block is not None
    return block[1]


@pytest.mark.usefixtures("processes")
def test_documented_replacement_of_an_edge_creates_another_key_of_its_certificate(
    tmp_path: Path,
) -> None:
    ca = tmp_path / ".mistbow" / "compose" / "ca"
    # As docker-compose 1.29 writes the name; see the program `docker` below.
    before = FogCertificates(ca).files_of("mistbow_edge_2", ["localhost"])
    FogCertificates(ca).files_of("mistbow_edge_1", ["localhost"])
    _run_with_programs(_commands_after("Identities of containers"), tmp_path)
    after = FogCertificates(ca).files_of("mistbow_edge_2", ["localhost"])
    assert after["service.key"] != before["service.key"]
    assert (ca / "mistbow_edge_1.key").exists()


def _run_with_programs(
    commands: str, folder: Path, failing: str = "", **variables: str
) -> tuple[bool, list[str]]:
    """Run commands whose programs only write their words to a log; return success and the log.

    ``failing``: the beginning of the words of the program that fails. ``variables``: of the
    environment. A first container starts, then restarts in a loop, and is healthy afterwards.
    """
    (folder / ".venv" / "bin").mkdir(parents=True)
    states = folder / "states"
    states.write_text("Up (health: starting)\nRestarting (1) 2 seconds ago\nUp (healthy)\n")
    for program in ("docker", "make", "sleep", ".venv/bin/mistbow"):
        path = folder / program
        path.write_text(
            f'#!/bin/sh\necho "{path.name} $*" >> {folder}/log\n'
            f'case "{path.name} $*" in\n'
            '  "docker ps --all"*"service=edge"*"container-number=2") echo mistbow_edge_2 ;;\n'
            f'  "docker ps "*) sed -n 1p {states}; sed -i "1{{\\$!d}}" {states} ;;\n'
            f'  "{failing or "nothing"}"*) exit 1 ;;\n'
            "esac\n"
        )
        path.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
    done = subprocess.run(["bash", "-c", commands], cwd=folder, env=environment, check=False)
    return done.returncode == 0, (folder / "log").read_text().splitlines()


@pytest.mark.usefixtures("processes")
def test_documented_upgrade_runs_to_its_end_and_waits_for_containers_that_restart(
    tmp_path: Path,
) -> None:
    # No other worker may merge the results of all sites, so a drain of this one fails.
    ended_well, log = _run_with_programs(
        _commands_after("Upgrades"), tmp_path, "mistbow node drain worker-cloud"
    )
    assert ended_well
    ups = [number for number, line in enumerate(log) if line.startswith("docker compose")]
    assert len(ups) == 4
    waits = [number for number, line in enumerate(log) if line.startswith("sleep")]
    assert len(waits) == 2
    assert ups[0] < waits[0] < waits[1] < ups[1]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "failing",
    ["docker compose", "make identities", "mistbow node drain edge-2"],
)
def test_documented_upgrade_ends_at_the_first_failure(failing: str, tmp_path: Path) -> None:
    ended_well, log = _run_with_programs(_commands_after("Upgrades"), tmp_path, failing)
    assert not ended_well
    assert log[-1].startswith(failing)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("edges", [None, 2, 5])
def test_documented_upgrade_drains_and_undrains_each_edge(
    edges: int | None, tmp_path: Path
) -> None:
    variables = {} if edges is None else {"MISTBOW_EDGES": str(edges)}
    ended_well, log = _run_with_programs(_commands_after("Upgrades"), tmp_path, **variables)
    assert ended_well
    [replaced] = (number for number, line in enumerate(log) if line.endswith("--no-deps edge"))
    drains = [line for line in log[:replaced] if line.startswith("mistbow")]
    undrains = [line for line in log[replaced:] if line.startswith("mistbow")]
    names = [f"edge-{number}" for number in range(1, (edges or AGENTS["edge"]) + 1)]
    assert drains == [f"mistbow node drain {name}" for name in names]
    assert undrains == [f"mistbow node undrain {name}" for name in names]


def test_documented_upgrade_replaces_all_services_in_the_order_of_upgrades() -> None:
    commands = _commands_after("Upgrades")
    steps = [words.split() for words in re.findall(r"^ *up ([a-z].+)$", commands, re.MULTILINE)]
    assert sorted(name for step in steps for name in step) == sorted(SERVICES)
    place = {name: number for number, step in enumerate(steps) for name in step}
    assert place["storage-cloud"] < place["edge"] <= place["worker-cloud"] < place["enabler"]


def test_documented_commands_are_those_of_this_folder() -> None:
    """No page assumes that ``mistbow`` is in the path, which it is not after ``make``."""
    found = []
    for page in image.ROOT.glob("docs/*.md"):
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            found += re.findall(r"^(?:[A-Z_]+=\S+ )*mistbow .*$", block, re.MULTILINE)
    assert found == []
