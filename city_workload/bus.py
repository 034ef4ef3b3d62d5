"""The model of a bus: position, passengers, fares and delay."""

import random
from dataclasses import dataclass

from city_workload.streets import BLOCK_M, Heading, Streets

SEATS = 60
FARE = 1.5
MAX_DELAY_S = 1800.0
_SPEEDS_MPS = (5.0, 14.0)
_STOP_CHANCE = 0.4
_STOP_S = (5.0, 40.0)
_PLANNED_STOP_S = 20.0


@dataclass(slots=True)
class Bus:
    """A bus that waits for ``wait_s`` at the crossing ``at``, or is ``offset_m`` meters past
    ``at``.

    ``delay_s``: the delay behind the timetable. ``fares``: the fares (EUR) since the last report.
    """

    line: str
    at: tuple[int, int]
    heading: Heading
    speed_mps: float
    passengers: int
    delay_s: float = 0.0
    offset_m: float = 0.0
    wait_s: float = 0.0
    fares: float = 0.0

    @property
    def position_m(self) -> tuple[float, float]:
        """The distances (m) of the bus to the east and north of the city's south-western corner."""
        east, north = self.at
        return (
            east * BLOCK_M + self.heading[0] * self.offset_m,
            north * BLOCK_M + self.heading[1] * self.offset_m,
        )

    def drive(self, seconds: float, streets: Streets, random_source: random.Random) -> None:
        """Move the bus along the streets for ``seconds`` of driving and waiting."""
        while seconds > 0:
            if self.wait_s > 0:
                spent = min(seconds, self.wait_s)
                self.wait_s -= spent
            else:
                to_crossing = (BLOCK_M - self.offset_m) / self.speed_mps
                spent = min(seconds, to_crossing)
                self.offset_m += spent * self.speed_mps
                if spent == to_crossing:
                    self._cross(streets, random_source)
            seconds -= spent

    def take_fares(self) -> float:
        """Return the fares (EUR) since the last call, and reset them to 0."""
        paid, self.fares = self.fares, 0.0
        return paid

    def _cross(self, streets: Streets, random_source: random.Random) -> None:
        self.at = (self.at[0] + self.heading[0], self.at[1] + self.heading[1])
        self.offset_m = 0.0
        self.heading = streets.turn(random_source, self.at, self.heading)
        self.speed_mps = random_source.uniform(*_SPEEDS_MPS)
        if random_source.random() < _STOP_CHANCE:
            self._stop(random_source)

    def _stop(self, random_source: random.Random) -> None:
        self.passengers -= random_source.randint(0, self.passengers)
        boarding = random_source.randint(0, SEATS - self.passengers) // 2
        self.passengers += boarding
        self.fares += boarding * FARE
        self.wait_s = random_source.uniform(*_STOP_S)
        behind = self.delay_s + self.wait_s - _PLANNED_STOP_S
        self.delay_s = min(max(behind, 0.0), MAX_DELAY_S)


def new_bus(line: str, streets: Streets, random_source: random.Random) -> Bus:
    """Return a bus at a random crossing."""
    at, heading = streets.random_start(random_source)
    return Bus(
        line, at, heading, random_source.uniform(*_SPEEDS_MPS), random_source.randint(0, SEATS // 2)
    )
