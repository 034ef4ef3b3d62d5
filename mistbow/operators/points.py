"""The points of one window."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of equal place in three arrays: ``ts`` in ms, the value, and what was measured.

    ``entities`` may be any array that can be sorted: of texts, or of their places in a dictionary
    that the points compared with share.
    """

    ts: NDArray[np.int64]
    values: Floats
    entities: NDArray[Any]
