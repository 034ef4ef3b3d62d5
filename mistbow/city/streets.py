"""The map: a grid of streets, cut from west to east into regions of one width."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

BLOCK_M = 250
REGION_BLOCKS = 8
NORTH_BLOCKS = 16

# Metres per degree at the city's latitude; the south-western corner.
_METRES_PER_LATITUDE = 111_200
_METRES_PER_LONGITUDE = 91_000
_SOUTH, _WEST = 35.10, 33.30

Heading = tuple[int, int]
_HEADINGS: tuple[Heading, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
_STRAIGHT_ON = 0.7


@dataclass(frozen=True, slots=True)
class Streets:
    """All crossings are whole numbers of blocks from the south-western corner."""

    regions: Sequence[str]

    @property
    def east_blocks(self) -> int:
        """Return how many blocks the city is wide."""
        return REGION_BLOCKS * len(self.regions)

    def region(self, east_m: float) -> str:
        """Return the region of a place."""
        number = int(east_m // (BLOCK_M * REGION_BLOCKS))
        return self.regions[min(max(number, 0), len(self.regions) - 1)]

    def turn(self, chance: random.Random, at: tuple[int, int], heading: Heading) -> Heading:
        """Return where to go on from a crossing: mostly straight on, back only from a dead end."""
        if self._leads_on(at, heading) and chance.random() < _STRAIGHT_ON:
            return heading
        east, north = heading
        sides = [side for side in ((north, -east), (-north, east)) if self._leads_on(at, side)]
        return chance.choice(sides) if sides else (-east, -north)

    def somewhere(self, chance: random.Random) -> tuple[tuple[int, int], Heading]:
        """Return a crossing and a way to leave it."""
        at = (chance.randint(0, self.east_blocks), chance.randint(0, NORTH_BLOCKS))
        return at, chance.choice([each for each in _HEADINGS if self._leads_on(at, each)])

    def _leads_on(self, at: tuple[int, int], heading: Heading) -> bool:
        east, north = at[0] + heading[0], at[1] + heading[1]
        return 0 <= east <= self.east_blocks and 0 <= north <= NORTH_BLOCKS


def degrees(east_m: float, north_m: float) -> tuple[float, float]:
    """Return latitude and longitude of a place."""
    latitude = _SOUTH + north_m / _METRES_PER_LATITUDE
    return round(latitude, 6), round(_WEST + east_m / _METRES_PER_LONGITUDE, 6)
