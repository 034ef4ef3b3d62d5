"""The fleet of buses in containers: results are right although buses lose their links."""

from collections.abc import Iterator

import pytest

from fog_emulation.backend import apply
from tests.support.conditions import eventually
from tests.support.emulated_fogs import NEED_IMAGE, EmulatedFog, running_fog
from tests.support.fog_scenarios import FLEET, FLEET_INSIGHTS

pytestmark = NEED_IMAGE


@pytest.fixture(scope="module")
def fleet(containers: None) -> Iterator[EmulatedFog]:
    with running_fog(FLEET, "test-fleet") as fleet:
        yield fleet


def test_results_equal_the_oracle_s_after_buses_lose_their_links(fleet: EmulatedFog) -> None:
    fleet.check_scenario("tunnel", FLEET_INSIGHTS, at_least_s=60)


def test_bus_that_starts_later_is_a_site_of_its_own(fleet: EmulatedFog) -> None:
    (bus,) = fleet.steps("change-of-shift")[0].effects
    apply(fleet.backend, bus)
    eventually(
        lambda: {each.name for each in fleet.fabric().sites} == {*FLEET.sites, "bus-4"},
        timeout=120,
        what="the depot knows the fourth bus",
    )
