"""Finds a replication policy by name: the built-in policy, or a policy of an installed package."""

from importlib.metadata import entry_points

from mistbow.errors import InvalidRequestError
from storage_agent.replication.policy.fragile_first import FragileFirst
from storage_agent.replication.policy.view import Policy

GROUP = "mistbow.replication_policies"
"""The group of the entry points of replication policies."""

_BUILT_IN = {"fragile-first": FragileFirst}


def load(name: str) -> Policy:
    """Return a new instance of the replication policy with this name.

    Raises ``InvalidRequestError`` unless exactly one installed package provides the policy.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if len(found) != 1:
        names = ", ".join(sorted({*_BUILT_IN, *entry_points(group=GROUP).names}))
        raise InvalidRequestError(
            f"MISTBOW_REPLICATION_POLICY: {len(found)} packages provide the replication policy "
            f"{name!r}; exactly one must",
            hint=f"The installed replication policies: {names}.",
        )
    (entry,) = found.values()
    policy: Policy = entry.load()()
    return policy
