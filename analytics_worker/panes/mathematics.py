"""Mathematical functions of single values, for Arrow arrays and Arrow scalars."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analytics.plan.functions import Mathematical

_NOTHING = pa.scalar(None, pa.float64())

MATHEMATICAL: dict[Mathematical, Callable[[Any], Any]] = {
    "SQRT": lambda values: pc.sqrt(pc.if_else(pc.greater_equal(values, 0.0), values, _NOTHING)),
    "ABS": pc.abs,
    "SQR": lambda values: pc.multiply(values, values),
    "LOG": lambda values: pc.ln(pc.if_else(pc.greater(values, 0.0), values, _NOTHING)),
    "EXP": pc.exp,
}
"""Function name -> the function for arrays and scalars; undefined results are null."""
