import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analytics_worker.operators.geohash import geohash
from tests.analytics_worker.operators.values import CALM

LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz"


def bisected(latitude: float, longitude: float, n: int) -> str:
    """Return the geohash of ``n`` letters, computed bit by bit by bisecting the degrees."""
    ranges, text = [[-180.0, 180.0], [-90.0, 90.0]], ""
    for letter in range(n):
        bits = 0
        for bit in range(5):
            axis = (5 * letter + bit) % 2
            low, high = ranges[axis]
            middle = (low + high) / 2
            upper = (longitude, latitude)[axis] >= middle
            ranges[axis] = [middle, high] if upper else [low, middle]
            bits = 2 * bits + upper
        text += LETTERS[bits]
    return text


@CALM
@given(st.floats(-90, 90), st.floats(-180, 180), st.integers(1, 12))
def test_a_geohash_is_the_path_of_halves(latitude: float, longitude: float, n: int) -> None:
    [found] = geohash(np.array([latitude]), np.array([longitude]), n)
    assert found == bisected(latitude, longitude, n)


def test_invalid_positions_have_no_geohash() -> None:
    places = [(90, 180), (-90, -180), (90.1, 0), (0, -180.1), (np.nan, 0), (0, np.inf)]
    latitudes, longitudes = np.array(places, np.float64).T
    assert geohash(latitudes, longitudes, 3) == ["zzz", "000", None, None, None, None]
