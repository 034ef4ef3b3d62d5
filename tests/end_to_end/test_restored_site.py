"""A site is backed up while insights run over its points, wiped, and restored.

Restoration moves the positions of all streams and the epochs of their writers. So the results of
the deployment from the backup are compared, from before the cut and from after the restoration.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from tests.oracle.stored_points import stored_points
from tests.support.oracle_results import await_oracle, await_results
from tests.support.sender import Sender
from tests.support.site_processes import ROLES, SiteProcesses, site_processes
from tests.support.traffic import Traffic

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("processes"),
]

METRIC = "tram.load"
QUERIES = f"""
average = COMPUTE AVG({METRIC}, 3 SECONDS) BY entityID EVERY 1 SECOND;
number = COMPUTE RUNNING_COUNT({METRIC}) BY entityID EVERY 1 SECOND
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SiteProcesses]:
    with site_processes(tmp_path) as site:
        site.start(*ROLES)
        yield site


def sender_of(site: SiteProcesses, seed: int) -> Sender:
    """Return a sender of points whose values no other seed has."""
    traffic = Traffic(metrics=(METRIC,), entities=("tram-1", "tram-2"), rate=100, seed=seed)
    return Sender(site.url("agent"), traffic, site.token)


def identities(points: list[Point]) -> Counter[tuple[str, int, float]]:
    return Counter((point.entity, point.ts, point.value) for point in points)


def restore(site: SiteProcesses, backup: Path) -> None:
    """Wipe the stopped site as docs/backup.md describes it, and restore the backup."""
    aside = site.home / "before-restore"
    aside.mkdir()
    for part in ("ignite", "agent/heads.json"):
        (site.home / part).rename(aside / Path(part).name)
    output = site.command("restore", str(backup), *site.ignite_options())
    assert_whole_line(output, f"restored cloud to {site.home}: ")


def assert_whole_line(output: str, beginning: str) -> None:
    """Check that a command did not wrap its last line, which is longer than a terminal is wide."""
    [line] = (line for line in output.splitlines() if line.startswith(beginning))
    assert line.endswith(" UTC")


@pytest.mark.parametrize(
    "stopped",
    [
        # As in docs/backup.md, "In containers": the worker and the enabler go on.
        pytest.param(("storage",), id="storage"),
        pytest.param(ROLES, id="all", marks=pytest.mark.soak),
    ],
)
def test_results_of_a_restored_site_equal_the_oracle_before_and_after_the_cut(
    site: SiteProcesses, tmp_path: Path, stopped: tuple[str, ...]
) -> None:
    with sender_of(site, seed=1) as sender:
        deployment = site.enabler.submit(QUERIES, name="tram").deployment_id
        await_results(site.enabler, deployment, system_clock())
        before = list(sender.acknowledged)
        output = site.command("backup", str(tmp_path / "backup"))
        assert_whole_line(output, f"backup of cloud in {tmp_path / 'backup'}: ")
        cut_before = system_clock()
        await_results(site.enabler, deployment, cut_before)
    site.stop(*reversed(stopped))
    restore(site, tmp_path / "backup")
    restored_at = system_clock()
    site.start(*stopped)
    stored = identities_of_site(site)
    assert not identities(before) - stored, "acknowledged points from before the backup are missing"
    assert identities(sender.acknowledged) - stored, "the data is that of the backup"

    with sender_of(site, seed=2) as later:
        await_results(site.enabler, deployment, restored_at)
        end = system_clock()
    compared = await_oracle(site.enabler, deployment, [site.agent], METRIC, end)
    assert identities_of_site(site) == stored + identities(later.acknowledged)
    rows = site.enabler.results(deployment, limit=100_000, end=end).results
    assert {row.ts < cut_before for row in rows} == {True, False}
    print(f"{stored.total()} points of the backup, {compared} results equal the oracle's")


def identities_of_site(site: SiteProcesses) -> Counter[tuple[str, int, float]]:
    rows = stored_points(site.agent, METRIC).to_pylist()
    return Counter((row["entity"], row["ts"], row["value"]) for row in rows)
