"""The names of a point's attributes, as the language and the data write them."""

ENTITY = "entityID"
"""What was measured: all points have it."""

_SYNONYMS = {
    "node_id": "node",
    "fog_node_id": "node",
    "fognodeid": "node",
    "entityid": ENTITY,
    "entity": ENTITY,
    "entitytype": "entityType",
    "groupname": "group",
}


def canonical(name: str) -> str:
    """Return the one name of an attribute.

    >>> canonical("fog_node_id"), canonical("entityId"), canonical("rack")
    ('node', 'entityID', 'rack')
    """
    return _SYNONYMS.get(name.lower(), name)
