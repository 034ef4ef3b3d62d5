"""The registry of operators of other packages, which is rebuilt in a sandbox when packages
change.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from analytics.operators import child
from analytics.operators.interface import GROUP, InstalledOperator
from analytics.packages import declared_in, packages
from analytics.plan.functions import BUILT_IN
from analytics.sandbox import SandboxError, run
from grammar.functions import ALIASES, OPERATORS
from mistbow.telemetry import get_logger

LIMIT_S = 10.0
"""The time limit (s) of a process that starts, loads all operators and describes them."""

log = get_logger(__name__)


class Registry(msgspec.Struct, frozen=True):
    """The usable operators; ``problems``: entry point -> why the operator cannot be used."""

    operators: tuple[InstalledOperator, ...] = ()
    problems: dict[str, str] = {}

    def newest(self, name: str) -> InstalledOperator | None:
        """Return the newest version of the operator ``name`` (in upper case), or None."""
        versions = [each for each in self.operators if each.name == name]
        return max(versions, key=lambda each: each.order, default=None)

    def version(self, name: str, version: str) -> InstalledOperator | None:
        """Return one version of the operator ``name`` (in upper case), or None."""
        for each in self.operators:
            if (each.name, each.version) == (name, version):
                return each
        return None


def installed() -> Registry:
    """Return the registry of operators.

    The first call after packages have changed takes longer: a process describes all operators.
    """
    entry_points = tuple(dict.fromkeys(entry.value for entry in declared_in(GROUP)))
    return _registry(entry_points, packages()) if entry_points else Registry()


@lru_cache(maxsize=1)
def _registry(entry_points: tuple[str, ...], stamps: tuple[tuple[str, int], ...]) -> Registry:
    del stamps  # the key of the cache
    descriptions = _describe(entry_points)
    by_version: dict[tuple[str, str], list[InstalledOperator]] = {}
    for each in descriptions.values():
        if isinstance(each, InstalledOperator):
            by_version.setdefault((each.name, each.version), []).append(each)
    problems = {
        entry_point: each for entry_point, each in descriptions.items() if isinstance(each, str)
    }
    for (name, version), same in by_version.items():
        if len(same) > 1:
            where = ", ".join(sorted(each.entry_point for each in same))
            problems |= {
                each.entry_point: f"{name} {version} is declared several times: {where}"
                for each in same
            }
        if name in _reserved():
            taken = f"{name} is a word of the language: choose another name"
            problems |= {each.entry_point: taken for each in same}
    for entry_point, problem in problems.items():
        log.warning("operator_rejected", entry_point=entry_point, reason=problem)
    all_operators = (each for same in by_version.values() for each in same)
    usable = [each for each in all_operators if each.entry_point not in problems]
    return Registry(tuple(sorted(usable, key=lambda each: (each.name, each.order))), problems)


def _reserved() -> frozenset[str]:
    # With the tables of the parser, the keywords take 8 MB: most workers need none of them.
    from grammar.format import RESERVED

    return RESERVED.union(BUILT_IN, ALIASES, OPERATORS)


def _describe(entry_points: Sequence[str]) -> dict[str, InstalledOperator | str]:
    """Return entry point -> the description of the operator, or the reason why the operator cannot
    be used.

    A process describes the entry points in order. If the process hangs or crashes, this failure is
    the reason for the first entry point without a description, and a new process describes the
    remaining entry points.
    """
    descriptions: dict[str, InstalledOperator | str] = {}
    while left := [entry_point for entry_point in entry_points if entry_point not in descriptions]:
        problem = "the process ended without a description of the operator"
        try:
            output = run(child.__name__, ["describe", *left], b"", LIMIT_S)
        except SandboxError as error:
            output, problem = error.output, str(error)
        for entry_point, line in zip(left, output.splitlines(), strict=False):
            descriptions[entry_point] = msgspec.json.decode(line, type=InstalledOperator | str)
        culprit = next(
            (entry_point for entry_point in left if entry_point not in descriptions), left[-1]
        )
        descriptions.setdefault(culprit, problem)
    return descriptions
