"""The interface that an operator of another package implements."""

import re
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

GROUP = "mistbow.operators"
"""The group of entry points that declares operators."""

MAX_METRICS = 2
MAX_ATTRIBUTES = 4
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


Derivation = str | float | bool | tuple[str | float | bool, ...] | None
"""The result of an operator: a value, a list of values, or None."""


class AttributeOperator(Protocol):
    """A function of attributes of a point: a plain class that is constructed without arguments.

    The method ``derive`` has a positional argument for each attribute (one to four): a text, a
    number or a boolean. It returns a value of one of these types, or a list, tuple or set of
    such values, or None if nothing can be derived. The method must be pure, since its answers are
    stored and used again.
    """

    name: str
    """The name by which insights call the operator, in upper or lower case."""

    version: str
    """The version of the operator: one to four numbers, separated by dots."""

    def derive(self, *attributes: str | float | bool) -> object:
        """Return the value derived from the attributes of a point."""


class InstalledOperator(msgspec.Struct, frozen=True):
    """An installed operator: its name in upper case, its version and its arguments.

    ``entry_point``: the class of the operator, as ``module:Class``. ``metrics``: the number of
    metrics. ``parameters``: the names of the parameters; the first ``needed`` of these parameters
    have no default. ``attributes``: the number of attributes, if the operator is a function of
    attributes; it has no metrics then.
    """

    name: str
    version: str
    entry_point: str
    metrics: int
    parameters: tuple[str, ...] = ()
    needed: int = 0
    attributes: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """The sort key of the version; the newest version has the greatest key."""
        return tuple(map(int, self.version.split(".")))
