"""The city's map: a grid of streets, divided from west to east into regions of equal width."""

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
    """The grid of streets.

    A crossing is (number of blocks to the east, number of blocks to the north), counted from the
    south-western corner. ``regions``: the names of the regions from west to east.
    """

    regions: Sequence[str]

    @property
    def east_blocks(self) -> int:
        """The width of the city in blocks."""
        return REGION_BLOCKS * len(self.regions)

    def region(self, east_m: float) -> str:
        """Return the region that contains a position.

        ``east_m``: the distance (m) of the position from the western edge of the city.
        """
        number = int(east_m // (BLOCK_M * REGION_BLOCKS))
        return self.regions[min(max(number, 0), len(self.regions) - 1)]

    def turn(self, random_source: random.Random, at: tuple[int, int], heading: Heading) -> Heading:
        """Return the next heading of a bus at a crossing.

        The heading is mostly straight on; the bus turns back only at a dead end.
        """
        if self._stays_inside(at, heading) and random_source.random() < _STRAIGHT_ON:
            return heading
        east, north = heading
        sides = [side for side in ((north, -east), (-north, east)) if self._stays_inside(at, side)]
        return random_source.choice(sides) if sides else (-east, -north)

    def random_start(self, random_source: random.Random) -> tuple[tuple[int, int], Heading]:
        """Return (a random crossing, a heading that stays inside the city)."""
        at = (random_source.randint(0, self.east_blocks), random_source.randint(0, NORTH_BLOCKS))
        return at, random_source.choice(
            [each for each in _HEADINGS if self._stays_inside(at, each)]
        )

    def _stays_inside(self, at: tuple[int, int], heading: Heading) -> bool:
        east, north = at[0] + heading[0], at[1] + heading[1]
        return 0 <= east <= self.east_blocks and 0 <= north <= NORTH_BLOCKS


def degrees(east_m: float, north_m: float) -> tuple[float, float]:
    """Return the latitude and longitude of a position, in degrees.

    The position is given in meters to the east and north of the south-western corner.
    """
    latitude = _SOUTH + north_m / _METRES_PER_LATITUDE
    return round(latitude, 6), round(_WEST + east_m / _METRES_PER_LONGITUDE, 6)
