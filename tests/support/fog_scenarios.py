"""All scenarios of Mistbow's Fogify files, with the insights whose results are compared."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.support.city import INSIGHTS, running_city
from tests.support.emulated_fogs import ROOT, EmulatedFog, FogFile, running_fog

_BUSES = ("bus-1", "bus-2", "bus-3")
FLEET = FogFile(
    path=ROOT / "fogify_scenarios" / "bus_fleet.yml",
    sites={"depot": ("depot-1", "yard"), **{bus: (bus, "board") for bus in _BUSES}},
    enabler=("enabler-1", "yard"),
    workers=frozenset({"depot"}),
    core="depot",
)
FLEET_INSIGHTS = """
passengers_now = COMPUTE AVG(passengers, 10 SECONDS) BY region EVERY 5 SECONDS;
worst_delay = COMPUTE MAX(delay, 30 SECONDS) EVERY 5 SECONDS;
"""

FACTORY = FogFile(
    path=ROOT / "fogify_scenarios" / "factory.yml",
    sites={
        "office": ("office-1", "plant"),
        "server": ("server-1", "plant"),
        "controller": ("controller-1", "plant"),
        "press-1": ("press-1", "plant"),
        "press-2": ("press-2", "plant"),
    },
    enabler=("enabler-1", "plant"),
    workers=frozenset({"server", "controller"}),
    core="office",
)
FACTORY_INSIGHTS = """
busy = COMPUTE AVG(cpu.util, 10 SECONDS) BY site EVERY 5 SECONDS;
busiest = COMPUTE MAX(cpu.util, 30 SECONDS) EVERY 5 SECONDS;
"""
# The points of a dead machine are gone, and with them what the oracle needs for all machines.
_MACHINES = "busy = COMPUTE AVG(cpu.util, 10 SECONDS) BY site EVERY 5 SECONDS;"


@dataclass(frozen=True)
class FogScenario:
    """A scenario of a file; ``running``: runs the fog of the file under a name."""

    name: str
    insights: str
    file: str
    running: Callable[[str], AbstractContextManager[EmulatedFog]]


def _fleet(name: str) -> AbstractContextManager[EmulatedFog]:
    return running_fog(FLEET, name)


def _factory(name: str) -> AbstractContextManager[EmulatedFog]:
    return running_fog(FACTORY, name)


SCENARIOS = (
    *(
        FogScenario(name, INSIGHTS.read_text(), "docker-compose", running_city)
        for name in ("cut-and-heal", "rush-hour", "worker-dies-link-cut", "edge-joins")
    ),
    FogScenario("tunnel", FLEET_INSIGHTS, "bus_fleet", _fleet),
    FogScenario("change-of-shift", FLEET_INSIGHTS, "bus_fleet", _fleet),
    FogScenario("busy-server", FACTORY_INSIGHTS, "factory", _factory),
    FogScenario("power-cut", _MACHINES, "factory", _factory),
)
