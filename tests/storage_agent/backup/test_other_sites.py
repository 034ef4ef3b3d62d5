"""A restored site in a fog: other sites copy its rows and facts on, without gaps or repetitions."""

import pytest

from mistbow.client import Point
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from storage_agent.backup.archive import Archive
from storage_agent.backup.copy import back_up
from tests.storage_agent.backup.conftest import restored, wipe
from tests.storage_agent.conftest import AgentSite
from tests.support.conditions import eventually
from tests.support.sites import wait_until_reached


def stored(*values: float) -> list[Point]:
    return [Point(metric="m", entity="e", value=value, ts=system_clock()) for value in values]


@pytest.mark.soak
async def test_replica_of_a_restored_site_continues_after_the_rows_that_the_backup_lacks(
    servers, places: list[AgentSite], tmp_path
):
    source, target = places[:2]
    archive = Archive(str(tmp_path / "backup"))
    with target.agent(source) as there:

        def values() -> list[float]:
            try:
                return there.read("replicas/a/raw", 0).table["value"].to_pylist()
            except NotFoundError:
                return []  # it does not exist yet

        def eventually_copied(expected: list[float]) -> None:
            eventually(lambda: values() == expected, what=f"{expected} are copied")

        with source.agent(target, replication_policy="") as client:
            wait_until_reached(there, "a")
            client.operations.request_copy("b")
            client.put(stored(1, 2))
            eventually_copied([1, 2])
            back_up(there.at("a"), archive)
            client.put(stored(3))
            eventually_copied([1, 2, 3])
        wipe(servers[0], source.home)
        await restored(archive, servers[0])
        with source.agent(target, replication_policy="") as client:
            client.put(stored(4))
            eventually_copied([1, 2, 3, 4])
            assert client.read("raw", 0).table["value"].to_pylist() == [1, 2, 4]
            found = there.at("a").list_series()
            assert [each["metricID"] for each in found] == ["m"]
