"""The interface that an operator of another package implements."""

import re
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

GROUP = "mistbow.operators"
"""The group of entry points that declares operators."""

MAX_METRICS = 2
NAME = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")


class Operator(Protocol):
    """A function over the values of a window: a plain class that is constructed without arguments.

    The method ``compute`` has a positional argument for each metric (one or two), and a
    keyword-only argument for each parameter in brackets, in the same order. A parameter with a
    default is optional. For each metric, ``compute`` receives a non-empty array of floats: the
    values of the window, ordered by time. The method returns a number, or None if the window has no
    value. The method must be pure, since one instance serves many windows.
    """

    name: str
    """The name by which insights call the operator, in upper or lower case."""

    version: str
    """The version of the operator: one to four numbers, separated by dots."""

    def compute(self, *values: NDArray[np.float64], **parameters: float) -> float | None:
        """Return the value of a window; an implementation chooses the names of its arguments."""


class InstalledOperator(msgspec.Struct, frozen=True):
    """An installed operator: its name in upper case, its version and its arguments.

    ``entry_point``: the class of the operator, as ``module:Class``. ``metrics``: the number of
    metrics. ``parameters``: the names of the parameters; the first ``needed`` of these parameters
    have no default.
    """

    name: str
    version: str
    entry_point: str
    metrics: int
    parameters: tuple[str, ...] = ()
    needed: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """The sort key of the version; the newest version has the greatest key."""
        return tuple(map(int, self.version.split(".")))
