"""Series whose points have all expired: they leave the index, the facts, and all answers."""

import asyncio

import httpx
import pytest

from mistbow.client import AgentClient, Point
from mistbow.runtime import slices
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.settings import AgentSettings
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.series_index import LatestValue
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.timeseries.test_long_reads import StepClock
from tests.support.agents import running_agent
from tests.support.conditions import eventually

_RETENTION_S = 3600


@pytest.fixture
def settings(settings: AgentSettings) -> AgentSettings:
    return settings.model_copy(update={"retention_s": _RETENTION_S})


def published(url: str) -> set[str]:
    """Return the keys of the series that an agent has published as facts."""
    rows = httpx.get(f"{url}/streams/metadata/rows", params={"limit": 10_000}).json()["rows"]
    last = {row["key"]: row["event"] for row in rows if row["key"].startswith("series/")}
    return {key for key, event in last.items() if event != "null"}


def test_expired_series_is_retracted_and_series_that_came_back_is_not(
    url: str, client: AgentClient, clock: ManualClock
) -> None:
    client.put([Point("m", f"pod-{number}", clock.now, 1.0) for number in range(3)])
    eventually(lambda: len(published(url)) == 3, what="the series are published")
    clock.now += _RETENTION_S * 1000 + 1
    client.put([Point("m", "pod-1", clock.now, 2.0)])
    eventually(lambda: published(url) == {'series/["m","pod-1"]'}, what="two series are retracted")
    assert [each["entityID"] for each in client.list_series()] == ["pod-1"]


def test_agent_retracts_at_its_start_the_points_that_it_did_not_retract_before_it_died(
    settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        pass

    with monkeypatch.context() as fault:
        fault.setattr(FabricMembership, "retract_series", die)
        with running_agent(settings, clock) as url:
            client = AgentClient(url)
            client.put([Point("m", "e", clock.now, 1.0)])
            eventually(lambda: bool(published(url)), what="the series is published")
            clock.now += _RETENTION_S * 1000 + 1
            eventually(lambda: client.list_series() == [], what="the series has expired")
            client.close()
            assert published(url)
    with running_agent(settings, clock) as url:
        eventually(lambda: not published(url), what="the series is retracted")


async def test_series_that_gets_a_point_while_others_are_removed_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "time", StepClock())
    catalogue = Catalogue(lambda: 10)
    for number in range(2000):
        series = ("m", f"pod-{number}")
        catalogue.describe(series, {"metricID": "m", "entityID": series[1]})
        catalogue.set_latest(series, LatestValue(1, 1.0, 1, 1))
    kept, new = ("m", "pod-1999"), ("m", "new")

    async def put() -> None:
        catalogue.set_latest(kept, LatestValue(20, 1.0, 20, 20))
        # It gets the number of a series that was to be removed.
        catalogue.set_latest(("m", "pod-1998"), None)
        catalogue.describe(new, {"metricID": "m", "entityID": "new"})
        catalogue.set_latest(new, LatestValue(20, 1.0, 20, 20))

    (removed, left), _ = await asyncio.gather(catalogue.expire(), put())
    assert (len(removed), left) == (1998, [])
    assert set(catalogue.select()) == {kept, new}
