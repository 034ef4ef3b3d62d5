"""Backups whose clients are slow, or gone."""

from collections.abc import Iterator

import pytest

from mistbow.client.backup_model import BackupCut
from mistbow.errors import NotFoundError
from storage_agent.backup.source import Backups
from storage_agent.ignite.client import IgniteClient
from storage_agent.settings import AgentSettings
from storage_agent.streams.maintenance import Maintenance, StorageLimit
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.catalogue import Catalogue
from tests.storage_agent.conftest import ManualClock

NOW = 10**12


@pytest.fixture
def uptime() -> ManualClock:
    """The seconds since the agent started."""
    return ManualClock(0)


@pytest.fixture
def backups(uptime: ManualClock) -> Backups:
    return Backups(AgentSettings(collect_routes=False), ManualClock(NOW), uptime)


async def begun(backups: Backups) -> BackupCut:
    """Begin a backup of a site without streams, which needs no Ignite."""
    clock = ManualClock(NOW)
    maintenance = Maintenance(list, clock, StorageLimit, lambda _: True)
    return await backups.begin(Streams(IgniteClient([]), clock, 0), maintenance, {})


def slowly(chunks: Iterator[bytes], backups: Backups, uptime: ManualClock) -> Iterator[bytes]:
    """Read one chunk in ten minutes; meanwhile, the agent ends unused backups."""
    for chunk in chunks:
        uptime.now += 600
        backups.end_unused()
        yield chunk


async def test_backup_continues_after_its_client_has_read_many_series_for_an_hour(
    backups: Backups, uptime: ManualClock
) -> None:
    catalogue = Catalogue()
    for number in range(2600):
        name = f"e{number}"
        catalogue.describe(("m", name), {"metricID": "m", "entityID": name})
    cut = await begun(backups)
    lines = b"".join(slowly(backups.series(cut.id, catalogue), backups, uptime))
    assert lines.count(b"\n") == 2600
    assert uptime.now == 3600
    assert await backups.deletions(cut.id) == b"{}"


async def test_backup_ends_once_its_client_has_read_nothing_for_longer_than_fifteen_minutes(
    backups: Backups, uptime: ManualClock
) -> None:
    cut = await begun(backups)
    # So long may one part of 4 MiB take over a link of 37 kbit/s.
    uptime.now += 900
    backups.end_unused()
    await backups.deletions(cut.id)
    uptime.now += 901
    backups.end_unused()
    with pytest.raises(NotFoundError, match="there is no backup"):
        await backups.deletions(cut.id)
