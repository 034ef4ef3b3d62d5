"""Fragments: the parts of a plan that workers run, each from streams to one stream."""

import msgspec

from mistbow.plan.feeds import Feed
from mistbow.plan.nodes import Pane, Plan, fingerprint

MOST_SALIENCE = 100
"""Of fragments on one worker, those of the highest salience go first, and 0 is the least."""


class Place(msgspec.Struct, frozen=True):
    """A stream at a site; where points are read of another one than raw, ``feed`` says how."""

    site: str
    stream: str
    feed: Feed | msgspec.UnsetType = msgspec.UNSET


class Whole(msgspec.Struct, frozen=True, kw_only=True, tag="whole"):
    """Insights over one site: from its points to results."""

    id: str
    source: Place
    target: Place
    plan: Plan
    salience: int = 0

    @property
    def grain_ms(self) -> int:
        """How often results can be due."""
        return self.plan.grain_ms

    @property
    def fingerprint(self) -> str:
        """A name for exactly this fragment, the same everywhere."""
        return fingerprint(self)


class Partial(msgspec.Struct, frozen=True, kw_only=True, tag="partial"):
    """One site's part of insights over several: from its points to panes. Times in ms.

    The panes hold all points later than ``begin``. Panes close at multiples of ``grain_ms``, when
    results can be due; ``reach_ms`` is the longest window that is made of them.
    """

    id: str
    source: Place
    target: Place
    panes: tuple[Pane, ...]
    grain_ms: int
    reach_ms: int
    begin: int
    salience: int = 0

    @property
    def fingerprint(self) -> str:
        """A name for what is computed; where it began is no part of it."""
        return fingerprint(msgspec.structs.replace(self, begin=0))


class Merge(msgspec.Struct, frozen=True, kw_only=True, tag="merge"):
    """The other part: from all sites' panes to results.

    A source that is silent for ``patience_ms`` holds up the others no longer; that it left, and
    when it came back, are rows of ``decisions``.
    """

    id: str
    sources: tuple[Place, ...]
    target: Place
    decisions: Place
    plan: Plan
    patience_ms: int = 5000
    salience: int = 0

    @property
    def grain_ms(self) -> int:
        """How often results can be due."""
        return self.plan.grain_ms

    @property
    def fingerprint(self) -> str:
        """A name for exactly this fragment, the same everywhere."""
        return fingerprint(self)


Fragment = Whole | Partial | Merge


def fragment_from_json(data: bytes) -> Fragment:
    """Read a fragment; raises ``msgspec.ValidationError``, which says what is wrong where."""
    fragment: Fragment = msgspec.json.decode(data, type=Fragment)
    return fragment
