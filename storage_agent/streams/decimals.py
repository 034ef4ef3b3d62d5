"""Encodes floats as integers, if the floats are decimal numbers with few digits.

The encoding follows ALP (Afroozeh, Kuffó and Boncz, "ALP: Adaptive Lossless floating-Point
compression", SIGMOD 2023, section 2.6), but uses one exponent for an entire column. Most measured
values have few digits.
"""

import numpy as np
import numpy.typing as npt

_MAX_DIGITS = 6
_EXACT = 2.0**51


def as_integers(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], int] | None:
    """Return (integers, digits), where each value is ``integer / 10**digits``.

    Returns None if no small number of digits represents all values exactly.

    >>> as_integers(np.array([20.25, 3.5]))
    (array([2025,  350]), 2)
    >>> as_integers(np.array([0.1 + 0.2])) is None
    True
    """
    bits = values.view(np.int64)
    for digits in range(_MAX_DIGITS + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.round(values * 10.0**digits)
        if not np.all(np.abs(scaled) < _EXACT):
            return None
        integers = scaled.astype(np.int64)
        # Bits are compared: 0.0 and -0.0 are equal as floats.
        if np.array_equal(as_floats(integers, digits).view(np.int64), bits):
            return integers, digits
    return None


def as_floats(integers: npt.NDArray[np.int64], digits: int) -> npt.NDArray[np.float64]:
    """Return the floats that ``as_integers`` encoded as ``integers`` with ``digits`` digits."""
    return integers / 10.0**digits
