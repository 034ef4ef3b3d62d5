"""Geohashes: positions on Earth as short texts; nearby positions share a prefix."""

import pygeohash

from analytics_worker.operators.points import Floats


def geohash(latitudes: Floats, longitudes: Floats, n: int) -> list[str | None]:
    """Return the geohash of each position, with ``n`` characters (1 to 12).

    Latitudes and longitudes are in degrees. The geohash is None if the latitude or the longitude is
    out of range or NaN.

    >>> import numpy as np
    >>> geohash(np.array([57.64911, 91.0]), np.array([10.40744, 0.0]), 6)
    ['u4pruy', None]
    """
    on_earth = (abs(latitudes) <= 90) & (abs(longitudes) <= 180)
    positions = zip(on_earth.tolist(), latitudes.tolist(), longitudes.tolist(), strict=True)
    return [pygeohash.encode(lat, lon, n) if valid else None for valid, lat, lon in positions]
