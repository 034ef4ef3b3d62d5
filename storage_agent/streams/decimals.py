"""Floats that are decimals, kept as integers: most that is measured has few digits.

After ALP (Afroozeh, Kuffó and Boncz, "ALP: Adaptive Lossless floating-Point compression", SIGMOD
2023, section 2.6), with one exponent for a whole column.
"""

import numpy as np
import numpy.typing as npt

_MOST_DIGITS = 6
_EXACT = 2.0**51


def as_integers(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], int] | None:
    """Return integers and a number of digits that give exactly these values; None if none do.

    >>> as_integers(np.array([20.25, 3.5]))
    (array([2025,  350]), 2)
    >>> as_integers(np.array([0.1 + 0.2])) is None
    True
    """
    bits = values.view(np.int64)
    for digits in range(_MOST_DIGITS + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.round(values * 10.0**digits)
        if not np.all(np.abs(scaled) < _EXACT):
            return None
        integers = scaled.astype(np.int64)
        # By their bits: 0.0 and -0.0 are equal.
        if np.array_equal(as_floats(integers, digits).view(np.int64), bits):
            return integers, digits
    return None


def as_floats(integers: npt.NDArray[np.int64], digits: int) -> npt.NDArray[np.float64]:
    """Return the values that ``as_integers`` was given."""
    return integers / 10.0**digits
