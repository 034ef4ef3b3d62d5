"""The fragments that one worker should run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from analytics.plan.fragments import Fragment
from analytics.plan.orders import PartialOwner, surplus
from analytics.plan.status import FragmentStatus


@dataclass(frozen=True, slots=True)
class DesiredFragments:
    """The fragments that a worker should run; ``fragments``: fragment id -> fragment.

    Other running fragments are stopped, with two exceptions. ``retained``: the owners of partial
    fragments that continue in any version, since former merges read former versions. ``moving``:
    the ids of the fragments that other workers should run, but do not run yet. This worker neither
    stops nor restarts a moving fragment, until the other worker takes over. ``checked``: fragment
    id -> the share of its points whose quality is checked. ``orphaned``: the ids of fragments whose
    last worker is dead, and that no worker writes yet. ``orphan_round``: if it has increased, the
    worker receives ``orphaned`` again.
    """

    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    retained: frozenset[PartialOwner] = frozenset()
    moving: frozenset[str] = frozenset()
    checked: Mapping[str, float] = field(default_factory=dict)
    orphaned: frozenset[str] = frozenset()
    orphan_round: int = 0

    def missing(self, observed: Mapping[str, FragmentStatus]) -> list[Fragment]:
        """Return the desired fragments that the worker lacks: missing, outdated or fenced ones."""
        return [
            fragment
            for fragment in self.fragments.values()
            if (status := observed.get(fragment.id)) is None
            or status.fingerprint != fragment.fingerprint
            or status.state == "fenced"
        ]

    def surplus(self, observed: Iterable[str]) -> list[str]:
        """Return the ids of the observed fragments that the worker should stop."""
        return surplus(observed, self.fragments, self.retained, self.moving)
