"""Replication policies by name: those built in, and the entry points of their group."""

from importlib.metadata import entry_points

from mistbow.errors import InvalidRequestError
from storage_agent.replication.fragile_first import FragileFirst
from storage_agent.replication.view import Policy

GROUP = "mistbow.replication_policies"

_BUILT_IN = {"fragile-first": FragileFirst}


def load(name: str) -> Policy:
    """Return a new policy; raises ``InvalidRequestError`` if not exactly one has this name."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if len(found) != 1:
        names = ", ".join(sorted({*_BUILT_IN, *entry_points(group=GROUP).names}))
        raise InvalidRequestError(
            f"there are {len(found)} replication policies {name!r}", hint=f"There are: {names}."
        )
    (entry,) = found.values()
    policy: Policy = entry.load()()
    return policy
