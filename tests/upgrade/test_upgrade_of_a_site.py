"""An upgrade of one site under load, as containers are upgraded, from a version with identities.

Ignite, the storage agent, the monitoring agent and their supervisor change together.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mistbow.clock import system_clock
from tests.support.oracle_results import await_oracle, await_results
from tests.support.sender import Sender, check_stored
from tests.support.site_processes import ROLES, SiteProcesses, site_processes
from tests.support.traffic import Traffic
from tests.upgrade.former_version import (
    COMMIT_WITH_IDENTITIES,
    command_of_former_version,
    unpack_former_version,
)

METRIC = "tram.load"
QUERIES = f"""
average = COMPUTE AVG({METRIC}, 3 SECONDS) BY entityID EVERY 1 SECOND;
number = COMPUTE RUNNING_COUNT({METRIC}) BY entityID EVERY 1 SECOND
"""
TRAFFIC = Traffic(metrics=(METRIC,), entities=("tram-1", "tram-2"), rate=100)

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("processes"),
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[SiteProcesses]:
    """Yield a site whose processes run in the former version."""
    former = tmp_path / "former"
    unpack_former_version(former, COMMIT_WITH_IDENTITIES)
    with site_processes(tmp_path / "site") as site:
        site.start(*ROLES, prefix=command_of_former_version(former))
        yield site


def test_no_row_is_lost_by_an_upgrade_of_a_site_with_identities(site: SiteProcesses) -> None:
    with Sender(site.url("agent"), TRAFFIC, site.token) as sender:
        deployment = site.enabler.submit(QUERIES, name="tram").deployment_id
        await_results(site.enabler, deployment, system_clock())
        for roles in (("storage",), ("worker", "enabler")):
            site.stop(*roles)
            site.start(*roles)
            await_results(site.enabler, deployment, system_clock())
        end = system_clock()
    compared = await_oracle(site.enabler, deployment, [site.agent], METRIC, end)
    number = check_stored([sender], [site.agent], METRIC)
    print(f"{number} points and {compared} results: none missing, doubled or wrong")
