"""In which order definitions that use each other can be understood, and which cannot at all."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

MOST_CYCLES = 20


def ordered(uses: Mapping[str, Collection[str]]) -> tuple[list[str], list[list[str]]]:
    """Return all names, each behind those that it uses, and cycles of names that use each other.

    Names on a cycle, and those that need one, are left out of the order. Of very many cycles,
    the first are returned. A cycle begins and ends with the same name.
    """
    cycles: list[list[str]] = []
    left = dict(uses)
    while True:
        sorter = TopologicalSorter(left)
        try:
            sorter.prepare()
            break
        except CycleError as error:
            # It names each before the one that uses it.
            cycles.append(_from_first(error.args[1][::-1], uses))
            if len(cycles) == MOST_CYCLES:
                break
            left = {name: used for name, used in left.items() if name not in cycles[-1]}
    return _free(uses, {name for cycle in cycles for name in cycle}), cycles


def _from_first(cycle: list[str], uses: Mapping[str, Collection[str]]) -> list[str]:
    """Return a cycle so that it begins where the text does."""
    places = {name: place for place, name in enumerate(uses)}
    start = min(range(len(cycle) - 1), key=lambda place: places[cycle[place]])
    turned = cycle[start:-1] + cycle[:start]
    return [*turned, turned[0]]


def _free(uses: Mapping[str, Collection[str]], barred: set[str]) -> list[str]:
    # Whoever waits for itself never becomes ready, nor does anyone who waits for that.
    sorter = TopologicalSorter(
        {name: [*used, name] if name in barred else used for name, used in uses.items()}
    )
    order: list[str] = []
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        order.extend(name for name in ready if name in uses)
        sorter.done(*ready)
    return order
