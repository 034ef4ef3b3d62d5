"""The order of definitions by their dependencies, and the search for cyclic dependencies."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

MAX_CYCLES = 20


def dependency_order(
    uses: Mapping[str, Collection[str]],
) -> tuple[list[str], list[list[str]]]:
    """Return (names in the order of their dependencies, cycles of names).

    ``uses``: name -> the names that its definition uses. Each name comes after all names that its
    definition uses. Names in a cycle, and names that depend on a cycle, are omitted. At most
    ``MAX_CYCLES`` cycles are returned; each cycle begins and ends with the same name.
    """
    cycles: list[list[str]] = []
    left = dict(uses)
    while True:
        sorter = TopologicalSorter(left)
        try:
            sorter.prepare()
            break
        except CycleError as error:
            # CycleError lists each name before the name that uses it.
            cycles.append(_from_first(error.args[1][::-1], uses))
            if len(cycles) == MAX_CYCLES:
                break
            left = {name: used for name, used in left.items() if name not in cycles[-1]}
    return _acyclic(uses, {name for cycle in cycles for name in cycle}), cycles


def _from_first(cycle: list[str], uses: Mapping[str, Collection[str]]) -> list[str]:
    """Return a cycle, rotated to begin with the name that the text defines first."""
    ranks = {name: rank for rank, name in enumerate(uses)}
    start = min(range(len(cycle) - 1), key=lambda index: ranks[cycle[index]])
    rotated = cycle[start:-1] + cycle[:start]
    return [*rotated, rotated[0]]


def _acyclic(uses: Mapping[str, Collection[str]], cyclic: set[str]) -> list[str]:
    # A name that waits for itself never becomes ready, nor does any name that waits for it.
    sorter = TopologicalSorter(
        {name: [*used, name] if name in cyclic else used for name, used in uses.items()}
    )
    order: list[str] = []
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        order.extend(name for name in ready if name in uses)
        sorter.done(*ready)
    return order
