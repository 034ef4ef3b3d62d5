"""The types of a series and of its metadata, and the key under which the metadata is stored."""

from collections.abc import Container, Mapping
from typing import Any, TypeVar

import msgspec

V = TypeVar("V")

Series = tuple[str, str]
"""A series, identified by its metric and its entity."""

Metadata = dict[str, Any]
"""The metadata of one series as clients sent it: metricID, entityID, entityType, name, units, …."""

SERIES_PREFIX = "series/"
"""The prefix of the keys under which the metadata of series is stored."""

EXPORTED = "exported_"
"""The prefix that a sent label gets if one of the agent's own labels has the same name."""


def series_key(series: Series) -> str:
    """Return the key under which the metadata of a series is stored.

    >>> series_key(("cpu", "vm1"))
    'series/["cpu","vm1"]'
    """
    return SERIES_PREFIX + msgspec.json.encode(series).decode()


def series_of(metadata: Metadata) -> Series:
    """Return the series (metric, entity) that the given metadata describes."""
    return metadata["metricID"], metadata["entityID"]


def merge_labels(own: Mapping[str, V], sent: Mapping[str, V]) -> dict[str, V]:
    """Return the agent's own labels and the labels that a client sent, as name -> value.

    Own labels keep their names. A sent label gets the prefix ``exported_`` if its name is the name
    of an own label, or such a name that has this prefix already. So different sent labels remain
    different, and ``remove_own_label`` restores them.

    >>> merge_labels({"node": "n1"}, {"node": "a", "exported_node": "b", "rack": "7"})
    {'node': 'n1', 'exported_node': 'a', 'exported_exported_node': 'b', 'rack': '7'}
    """
    renamed = {
        EXPORTED + name if _without_prefix(name, own) in own else name: value
        for name, value in sent.items()
    }
    return {**own, **renamed}


def remove_own_label(merged: Mapping[str, V], own: str) -> dict[str, V]:
    """Return labels without the own label ``own``, as if ``merge_labels`` had not added this label.

    >>> remove_own_label({"group": "g", "exported_group": "a", "rack": "7"}, "group")
    {'group': 'a', 'rack': '7'}
    """
    return {
        name.removeprefix(EXPORTED) if _without_prefix(name, (own,)) == own else name: value
        for name, value in merged.items()
        if name != own
    }


def _without_prefix(name: str, own: Container[str]) -> str:
    """Return a name without the prefixes ``exported_`` before the name of an own label."""
    while name not in own and name.startswith(EXPORTED):
        name = name.removeprefix(EXPORTED)
    return name
