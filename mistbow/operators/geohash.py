"""Geohashes: places as short texts, of which equal beginnings mean near places."""

import pygeohash

from mistbow.operators.points import Floats


def geohash(latitudes: Floats, longitudes: Floats, n: int) -> list[str | None]:
    """Return the geohash of each place, of ``n`` characters (1 to 12).

    Latitudes and longitudes are in degrees; what is not on Earth, or NaN, is None.

    >>> import numpy as np
    >>> geohash(np.array([57.64911, 91.0]), np.array([10.40744, 0.0]), 6)
    ['u4pruy', None]
    """
    on_earth = (abs(latitudes) <= 90) & (abs(longitudes) <= 180)
    places = zip(on_earth.tolist(), latitudes.tolist(), longitudes.tolist(), strict=True)
    return [pygeohash.encode(lat, lon, n) if known else None for known, lat, lon in places]
