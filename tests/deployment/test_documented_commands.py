"""The commands of the pages for operators, run with programs that write a log of their words."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy import image
from deploy.certificates import FogCertificates
from tests.deployment.test_compose import SERVICES

_UP = "docker compose --project-name mistbow up"
_UPGRADE = ("With `make up`", "upgrades.md")


def _commands_after(title: str, page: str) -> str:
    """Return the first commands of a section of a page."""
    _, _, rest = (image.ROOT / "docs" / page).read_text().partition(f"## {title}\n")
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
    _run_with_programs(_commands_after("Identities of containers", "containers.md"), tmp_path)
    after = FogCertificates(ca).files_of("mistbow_edge_2", ["localhost"])
    assert after["service.key"] != before["service.key"]
    assert (ca / "mistbow_edge_1.key").exists()


@pytest.mark.usefixtures("processes")
def test_documented_replacement_of_an_edge_ends_if_the_edge_has_no_container(
    tmp_path: Path,
) -> None:
    ended_well, log = _run_with_programs(
        _commands_after("Identities of containers", "containers.md"), tmp_path, edge_2=""
    )
    assert not ended_well
    assert [line.split()[:2] for line in log] == [["docker", "ps"]]


def _run_with_programs(
    commands: str,
    folder: Path,
    failing: str = "",
    *,
    edges: Sequence[int] = (1, 2, 3),
    edge_2: str = "mistbow_edge_2",
) -> tuple[bool, list[str]]:
    """Run commands whose programs only write their words to a log; return success and the log.

    ``failing``: the beginning of the words of the program that fails. ``edges``: the numbers of the
    running edges. ``edge_2``: the name of the second edge's container; empty: it has none. A first
    container starts, then restarts in a loop, and is healthy afterwards.
    """
    (folder / ".venv" / "bin").mkdir(parents=True)
    states = folder / "states"
    states.write_text("Up (health: starting)\nRestarting (1) 2 seconds ago\nUp (healthy)\n")
    numbers = folder / "numbers"
    numbers.write_text("".join(f"edge-{number}\n" for number in edges))
    for program in ("docker", "docker-compose", "make", "sleep", "chown", ".venv/bin/mistbow"):
        path = folder / program
        path.write_text(
            f'#!/bin/sh\necho "{path.name} $*" >> {folder}/log\n'
            f'case "{path.name} $*" in\n'
            '  "docker ps --all"*"service=edge"*"container-number=2"*)'
            f' [ -z "{edge_2}" ] || echo "{edge_2}" ;;\n'
            f'  "docker ps "*"service=edge --format edge-"*) cat {numbers} ;;\n'
            f'  "docker ps "*) sed -n 1p {states}; sed -i "1{{\\$!d}}" {states} ;;\n'
            f'  "{failing or "nothing"}"*) exit 1 ;;\n'
            "esac\n"
        )
        path.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", commands], cwd=folder, env=environment, check=False)
    return done.returncode == 0, (folder / "log").read_text().splitlines()


@pytest.mark.usefixtures("processes")
def test_documented_upgrade_runs_to_its_end_and_waits_for_containers_that_restart(
    tmp_path: Path,
) -> None:
    # No other worker may merge the results of all sites, so a drain of this one fails.
    ended_well, log = _run_with_programs(
        _commands_after(*_UPGRADE), tmp_path, "mistbow node drain worker-cloud"
    )
    assert ended_well
    ups = [number for number, line in enumerate(log) if line.startswith(_UP)]
    assert len(ups) == 4
    waits = [number for number, line in enumerate(log) if line.startswith("sleep")]
    assert len(waits) == 2
    assert ups[0] < waits[0] < waits[1] < ups[1]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "failing",
    [_UP, "make identities", "mistbow node drain edge-2"],
)
def test_documented_upgrade_ends_at_the_first_failure(failing: str, tmp_path: Path) -> None:
    ended_well, log = _run_with_programs(_commands_after(*_UPGRADE), tmp_path, failing)
    assert not ended_well
    assert log[-1].startswith(failing)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("edges", [(1, 2), (2, 3), (1, 2, 3, 4, 5)], ids=str)
def test_documented_upgrade_drains_and_undrains_each_running_edge(
    edges: Sequence[int], tmp_path: Path
) -> None:
    """The number of edges may be in the file ``.env``, and the operator may have removed some."""
    ended_well, log = _run_with_programs(_commands_after(*_UPGRADE), tmp_path, edges=edges)
    assert ended_well
    [replaced] = (number for number, line in enumerate(log) if line.endswith("--no-deps edge"))
    drains = [line for line in log[:replaced] if line.startswith("mistbow")]
    undrains = [line for line in log[replaced:] if line.startswith("mistbow")]
    names = [f"edge-{number}" for number in edges]
    assert drains == [f"mistbow node drain {name}" for name in names]
    assert undrains == [f"mistbow node undrain {name}" for name in names]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("title", "page", "expected"),
    [
        (*_UPGRADE, ["up", "up", "up", "up"]),
        ("In containers", "backup.md", ["stop", "start"]),
    ],
)
def test_documented_commands_of_compose_run_with_docker_compose_1_29_alone(
    title: str, page: str, expected: list[str], tmp_path: Path
) -> None:
    commands = _commands_after(title, page)
    ended_well, log = _run_with_programs(commands, tmp_path, failing="docker compose")
    assert ended_well
    words = [line.split() for line in log if line.startswith("docker-compose")]
    assert [each[3] for each in words] == expected


def test_documented_upgrade_replaces_all_services_in_the_order_of_upgrades() -> None:
    commands = _commands_after(*_UPGRADE)
    steps = [words.split() for words in re.findall(r"^ *up ([a-z].+)$", commands, re.MULTILINE)]
    assert sorted(name for step in steps for name in step) == sorted(SERVICES)
    place = {name: number for number, step in enumerate(steps) for name in step}
    assert place["storage-cloud"] < place["edge"] <= place["worker-cloud"] < place["enabler"]


def test_documented_commands_are_those_of_this_folder() -> None:
    """No block assumes that ``mistbow`` is in the path, which it is not after ``make``."""
    found = []
    for page in image.ROOT.glob("docs/*.md"):
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            found += re.findall(r"^(?:[A-Z_]+=\S+ )*mistbow .*$", block, re.MULTILINE)
    assert found == []
