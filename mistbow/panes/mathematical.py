"""Functions of single values, over arrays and scalars of Arrow alike."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mistbow.plan.expressions import Mathematical

_NOTHING = pa.scalar(None, pa.float64())

MATHEMATICAL: dict[Mathematical, Callable[[Any], Any]] = {
    "SQRT": lambda values: pc.sqrt(pc.if_else(pc.greater_equal(values, 0.0), values, _NOTHING)),
    "ABS": pc.abs,
    "SQR": lambda values: pc.multiply(values, values),
    "LOG": lambda values: pc.ln(pc.if_else(pc.greater(values, 0.0), values, _NOTHING)),
    "EXP": pc.exp,
}
"""Each function; null where it is not defined."""
