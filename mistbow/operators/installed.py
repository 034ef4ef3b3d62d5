"""Which operators other packages have installed; asked in a process, once, until that changes."""

import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from grammar.format import RESERVED
from grammar.functions import ALIASES, FUNCTIONS, OPERATORS
from mistbow.operators import process
from mistbow.operators.interface import GROUP, Installed
from mistbow.packages import declared_in, environment, packages
from mistbow.telemetry import get_logger

LIMIT_S = 10.0
"""How long the operators of a process may take to be loaded, of which some tenths are its own."""

_OWN_WORDS = FUNCTIONS | ALIASES.keys() | OPERATORS.keys() | RESERVED

log = get_logger(__name__)


class Found(msgspec.Struct, frozen=True):
    """Operators that may be called, and by their place what is wrong with others."""

    operators: tuple[Installed, ...] = ()
    problems: dict[str, str] = {}

    def newest(self, name: str) -> Installed | None:
        """Return the newest version of an operator, by its name in upper case."""
        versions = [each for each in self.operators if each.name == name]
        return max(versions, key=lambda each: each.order, default=None)

    def version(self, name: str, version: str) -> Installed | None:
        """Return one version of an operator."""
        for each in self.operators:
            if (each.name, each.version) == (name, version):
                return each
        return None


def installed() -> Found:
    """Return what is installed now; takes up to ``LIMIT_S`` when that has changed."""
    places = tuple(dict.fromkeys(entry.value for entry in declared_in(GROUP)))
    return _found(places, packages()) if places else Found()


@lru_cache(maxsize=1)
def _found(places: tuple[str, ...], stamps: tuple[tuple[str, int], ...]) -> Found:
    del stamps  # a package that is installed, replaced or removed changes them
    told = _described(places)
    named: dict[tuple[str, str], list[Installed]] = {}
    for each in told.values():
        if isinstance(each, Installed):
            named.setdefault((each.name, each.version), []).append(each)
    problems = {place: each for place, each in told.items() if isinstance(each, str)}
    for (name, version), alike in named.items():
        if len(alike) > 1:
            where = ", ".join(sorted(each.place for each in alike))
            problems |= {each.place: f"{name} {version} is several: {where}" for each in alike}
        if name in _OWN_WORDS:
            taken = f"{name} is a word of the language, which means its own: choose another name"
            problems |= {each.place: taken for each in alike}
    for place, problem in problems.items():
        log.warning("an operator cannot be used", place=place, reason=problem)
    usable = (each for alike in named.values() for each in alike)
    operators = [each for each in usable if each.place not in problems]
    return Found(tuple(sorted(operators, key=lambda each: (each.name, each.order))), problems)


def _described(places: Sequence[str]) -> dict[str, Installed | str]:
    """Return what each place tells of itself, or what is wrong there.

    One that hangs or ends its process is known by that those before it have answered.
    """
    told: dict[str, Installed | str] = {}
    while left := [place for place in places if place not in told]:
        argv = [sys.executable, "-P", "-m", process.__name__, "describe", *left]
        problem = f"it does not load within {LIMIT_S:g} s"
        try:
            done = subprocess.run(
                argv, capture_output=True, env=environment(), timeout=LIMIT_S, check=False
            )
            output, problem = done.stdout, f"its process ended with {done.returncode}"
        except subprocess.TimeoutExpired as late:
            output = late.stdout or b""
        for place, line in zip(left, output.splitlines(), strict=False):
            told[place] = msgspec.json.decode(line, type=Installed | str)
        told.setdefault(next((place for place in left if place not in told), left[-1]), problem)
    return told
