"""The names of a point's attributes, in the language and in the data."""

ENTITY = "entityID"
"""The attribute of all points that names the measured entity."""

_SYNONYMS = {
    "node_id": "node",
    "fog_node_id": "node",
    "fognodeid": "node",
    "entityid": ENTITY,
    "entity": ENTITY,
    "entitytype": "entityType",
    "groupname": "group",
}


_OF_ALL_POINTS = frozenset({"node", "site", "region", ENTITY, "entityType", "group"})
_PREFIXES = ("pod.", "container.")


def is_of_all_points(name: str) -> bool:
    """Return whether points of any source can have an attribute; ``name``: the canonical name."""
    return name in _OF_ALL_POINTS or name.startswith(_PREFIXES)


def canonical(name: str) -> str:
    """Return the canonical name of an attribute.

    >>> canonical("fog_node_id"), canonical("entityId"), canonical("rack")
    ('node', 'entityID', 'rack')
    """
    return _SYNONYMS.get(name.lower(), name)
