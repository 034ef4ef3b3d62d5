"""The points of one window."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points as three arrays of the same length: ``ts`` in ms, ``values`` and ``entities``.

    ``entities`` is a sortable array: texts, or indices in a dictionary that all compared points
    share.
    """

    ts: NDArray[np.int64]
    values: Floats
    entities: NDArray[Any]
