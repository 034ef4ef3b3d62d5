"""The fleet of buses in containers: results are right although buses lose their links."""

from collections.abc import Iterator

import pytest

from fog_emulation.backend import apply
from tests.support.conditions import eventually
from tests.support.emulated_fogs import NEED_IMAGE, ROOT, EmulatedFog, FogFile, running_fog

pytestmark = NEED_IMAGE

BUSES = ("bus-1", "bus-2", "bus-3")
FLEET = FogFile(
    path=ROOT / "fogify_scenarios" / "bus_fleet.yml",
    sites={"depot": ("depot-1", "yard"), **{bus: (bus, "board") for bus in BUSES}},
    enabler=("enabler-1", "yard"),
    workers=frozenset({"depot"}),
    core="depot",
)
INSIGHTS = """
passengers_now = COMPUTE AVG(passengers, 10 SECONDS) BY region EVERY 5 SECONDS;
worst_delay = COMPUTE MAX(delay, 30 SECONDS) EVERY 5 SECONDS;
"""


@pytest.fixture(scope="module")
def fleet(containers: None) -> Iterator[EmulatedFog]:
    with running_fog(FLEET, "test-fleet") as fleet:
        yield fleet


def test_results_equal_the_oracle_s_after_buses_lose_their_links(fleet: EmulatedFog) -> None:
    fleet.check_scenario("tunnel", INSIGHTS)


def test_bus_that_starts_later_is_a_site_of_its_own(fleet: EmulatedFog) -> None:
    (bus,) = fleet.steps("change-of-shift")[0].effects
    apply(fleet.backend, bus)
    eventually(
        lambda: {each.name for each in fleet.fabric().sites} == {*FLEET.sites, "bus-4"},
        timeout=120,
        what="the depot knows the fourth bus",
    )
