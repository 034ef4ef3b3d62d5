"""The seam between the suite and an operator of another package, and what is known of one."""

import re
from typing import Protocol

import msgspec

from mistbow.operators.points import Floats

GROUP = "mistbow.operators"
"""The group of entry points."""

MOST_METRICS = 2
NAME = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")


class Operator(Protocol):
    """A function over the values of a window: a plain class, called without arguments.

    Its method ``compute`` has a positional argument for each metric that it is of (one or two),
    and one by keyword alone for each parameter in brackets, in their order; those with a default
    may be left out. It gets the values of a window in the order of their times, as an array of
    floats for each metric, none empty, and returns a number, or None for no value. It must be
    pure: an instance serves many windows.
    """

    name: str
    """As insights call it, in any case."""

    version: str
    """Numbers with points between."""

    def compute(self, *values: Floats, **parameters: float) -> float | None:
        """Return what it says of a window; a class names what it takes."""


class Installed(msgspec.Struct, frozen=True):
    """An operator that is installed: its name in upper case, and what it takes.

    ``place`` is where it is, as ``module:Class``; of its ``parameters`` the first ``needed`` must
    be given.
    """

    name: str
    version: str
    place: str
    metrics: int
    parameters: tuple[str, ...] = ()
    needed: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """By which versions are older and newer."""
        return tuple(map(int, self.version.split(".")))
