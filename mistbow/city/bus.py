"""A bus: drives along streets, lets people off and on, takes fares, falls behind and catches up."""

import random
from dataclasses import dataclass

from mistbow.city.streets import BLOCK_M, Heading, Streets

SEATS = 60
FARE = 1.5
MAX_DELAY_S = 1800.0
_SPEEDS_MPS = (5.0, 14.0)
_STOP_CHANCE = 0.4
_STOP_S = (5.0, 40.0)
_PLANNED_STOP_S = 20.0


@dataclass(slots=True)
class Bus:
    """``at``: the last crossing; ``waits_s`` there or is ``offset_m`` on; ``fares`` in euros."""

    line: str
    at: tuple[int, int]
    heading: Heading
    speed_mps: float
    passengers: int
    delay_s: float = 0.0
    offset_m: float = 0.0
    waits_s: float = 0.0
    fares: float = 0.0

    @property
    def place(self) -> tuple[float, float]:
        """Return metres to the east and north of the city's corner."""
        east, north = self.at
        return (
            east * BLOCK_M + self.heading[0] * self.offset_m,
            north * BLOCK_M + self.heading[1] * self.offset_m,
        )

    def drive(self, seconds: float, streets: Streets, chance: random.Random) -> None:
        """Go on for a time."""
        while seconds > 0:
            if self.waits_s > 0:
                spent = min(seconds, self.waits_s)
                self.waits_s -= spent
            else:
                to_crossing = (BLOCK_M - self.offset_m) / self.speed_mps
                spent = min(seconds, to_crossing)
                self.offset_m += spent * self.speed_mps
                if spent == to_crossing:
                    self._cross(streets, chance)
            seconds -= spent

    def take_fares(self) -> float:
        """Return what was paid since this was asked last, in euros."""
        paid, self.fares = self.fares, 0.0
        return paid

    def _cross(self, streets: Streets, chance: random.Random) -> None:
        self.at = (self.at[0] + self.heading[0], self.at[1] + self.heading[1])
        self.offset_m = 0.0
        self.heading = streets.turn(chance, self.at, self.heading)
        self.speed_mps = chance.uniform(*_SPEEDS_MPS)
        if chance.random() < _STOP_CHANCE:
            self._stop(chance)

    def _stop(self, chance: random.Random) -> None:
        self.passengers -= chance.randint(0, self.passengers)
        boarding = chance.randint(0, SEATS - self.passengers) // 2
        self.passengers += boarding
        self.fares += boarding * FARE
        self.waits_s = chance.uniform(*_STOP_S)
        behind = self.delay_s + self.waits_s - _PLANNED_STOP_S
        self.delay_s = min(max(behind, 0.0), MAX_DELAY_S)


def new_bus(line: str, streets: Streets, chance: random.Random) -> Bus:
    """Return a bus somewhere on its way."""
    at, heading = streets.somewhere(chance)
    return Bus(line, at, heading, chance.uniform(*_SPEEDS_MPS), chance.randint(0, SEATS // 2))
