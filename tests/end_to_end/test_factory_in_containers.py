"""The factory with unequal machines in containers: its insights are right, and show a busy one."""

from collections.abc import Iterator

import pytest

from tests.support.emulated_fogs import NEED_IMAGE, EmulatedFog, running_fog
from tests.support.fog_scenarios import FACTORY, FACTORY_INSIGHTS

pytestmark = NEED_IMAGE


@pytest.fixture(scope="module")
def factory(containers: None) -> Iterator[EmulatedFog]:
    with running_fog(FACTORY, "test-factory") as factory:
        yield factory


def test_results_equal_the_oracle_s_while_the_server_is_busy(factory: EmulatedFog) -> None:
    factory.check_scenario("busy-server", FACTORY_INSIGHTS, at_least_s=60)
    busy = busy_by_site(factory)
    # Also with few cores for all machines of the factory, the server is busy in its own figures.
    peak = max(busy, key=lambda found: found["server"])
    assert peak["server"] > min(found["server"] for found in busy) + 30, busy
    assert all(peak["server"] > 1.5 * peak[site] for site in ("office", "press-1", "press-2")), peak


def busy_by_site(factory: EmulatedFog) -> list[dict[str, float]]:
    """Return the values of the insight ``busy`` by site, for each time with those of all sites."""
    client = factory.enabler()
    [deployment] = client.list()
    rows = client.results(deployment.deployment_id, insight="busy", limit=10_000).results
    client.close()
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        if row.value is not None:
            found.setdefault(row.ts, {})[str(row.key["site"])] = float(row.value)
    return [values for values in found.values() if values.keys() == factory.file.sites.keys()]
