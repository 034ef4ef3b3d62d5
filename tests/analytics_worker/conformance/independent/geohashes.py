"""Geohashes of positions."""

import re


def geohash(lat: float, lon: float, length: int) -> str:
    """Return a geohash: bits of longitude and latitude in turn, five to a character."""
    alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"
    ranges = [[-180.0, 180.0], [-90.0, 90.0]]
    text, number = "", 0
    for bit in range(5 * length):
        side, value = (ranges[1], lat) if bit % 2 else (ranges[0], lon)
        middle = (side[0] + side[1]) / 2
        upper = value >= middle
        side[0 if upper else 1] = middle
        number = number * 2 + upper
        if bit % 5 == 4:
            text, number = text + alphabet[number], 0
    return text


def cell(text: object, length: int) -> str | None:
    """Return the geohash of a text "lat,lon" or "[lat, lon]"."""
    found = re.fullmatch(r"\[?\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*\]?", str(text))
    return geohash(float(found[1]), float(found[2]), length) if found else None
