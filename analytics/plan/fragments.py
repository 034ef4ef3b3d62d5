"""Fragments: the parts of a plan that workers run; each reads streams and writes one stream."""

from functools import cached_property
from typing import Literal

import msgspec

from analytics.plan.feeds import Feed
from analytics.plan.nodes import Pane, Plan, fingerprint

MAX_SALIENCE = 100
"""The greatest salience of a fragment; the least salience is 0."""


class StreamLocation(msgspec.Struct, frozen=True):
    """A stream at a site.

    ``feed``: the roles of the stream's columns; unset for the stream of raw points and for streams
    that fragments write. ``origin``: the site from whose points the stream was computed; unset if
    this is ``site``.
    """

    site: str
    stream: str
    feed: Feed | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def data_site(self) -> str:
        """The site whose points the stream contains, or from whose points it was computed.

        >>> StreamLocation("cloud", "panes/all.fair.1f.edge", origin="edge").data_site
        'edge'
        """
        return self.site if self.origin is msgspec.UNSET else self.origin


class Whole(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="whole"):
    """A fragment that computes insights over one site: it reads points and writes results."""

    id: str
    source: StreamLocation
    target: StreamLocation
    plan: Plan
    salience: int = 0

    @property
    def sources(self) -> tuple[StreamLocation, ...]:
        """The streams that this fragment reads."""
        return (self.source,)

    @property
    def grain_ms(self) -> int:
        """The interval (ms) at which results can be due."""
        return self.plan.grain_ms

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of this fragment, which is the same in all processes."""
        return fingerprint(self)


class Partial(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="partial"):
    """A fragment for one of several sites: it reads the site's points and writes panes.

    The panes contain all points after ``begin`` (ms since the epoch), and close at multiples of
    ``grain_ms``, at which results can be due. ``lookback_ms``: the greatest lookback of a window.
    """

    id: str
    source: StreamLocation
    target: StreamLocation
    panes: tuple[Pane, ...]
    grain_ms: int
    lookback_ms: int = msgspec.field(name="reach_ms")
    begin: int
    salience: int = 0

    @property
    def sources(self) -> tuple[StreamLocation, ...]:
        """The streams that this fragment reads."""
        return (self.source,)

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of this fragment without ``begin``, the same in all processes."""
        return fingerprint(msgspec.structs.replace(self, begin=0))


class Merge(msgspec.Struct, frozen=True, kw_only=True, dict=True, tag="merge"):
    """A fragment that computes insights over several sites: it reads panes and writes results.

    If the panes of a site are silent for ``patience_ms``, the merge no longer waits for this site.
    The stream ``decisions`` records when the merge stopped waiting for a site, and when the merge
    included the site again.
    """

    id: str
    sources: tuple[StreamLocation, ...]
    target: StreamLocation
    decisions: StreamLocation
    plan: Plan
    patience_ms: int = 5000
    salience: int = 0

    @property
    def sites(self) -> frozenset[str]:
        """The names of the sites whose panes this fragment reads."""
        return frozenset(source.data_site for source in self.sources)

    @property
    def grain_ms(self) -> int:
        """The interval (ms) at which results can be due."""
        return self.plan.grain_ms

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of this fragment, which is the same in all processes."""
        return fingerprint(self)


Fragment = Whole | Partial | Merge

FragmentKind = Literal["whole", "partial", "merge"]


def kind_of(fragment: Fragment) -> FragmentKind:
    """Return the kind of a fragment, which is also its tag in JSON."""
    match fragment:
        case Whole():
            return "whole"
        case Partial():
            return "partial"
        case Merge():
            return "merge"


def fragment_from_json(data: bytes) -> Fragment:
    """Decode a fragment; raises ``msgspec.ValidationError`` with the path of an invalid field."""
    fragment: Fragment = msgspec.json.decode(data, type=Fragment)
    return fragment
