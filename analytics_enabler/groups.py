"""Groups: the insights that run together, as one plan."""

import re

import msgspec

from analytics_enabler.semantics.definition import Options
from mistbow.plan.feeds import Feed
from mistbow.plan.nodes import fingerprint
from mistbow.streams.schemas import decisions_stream, results_stream
from mistbow.streams.signatures import signed

_MOST = 24
_MOST_BEFORE_DIGEST = 8  # a stream's name has room for no more, with a site's and a signature
_ODD = re.compile(r"[^a-z0-9-]")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Insights over the same site (None: over all of them), of the same scheduler and options.

    ``feed``: where their points are not of storage. ``alone``: the uid of the one insight whose
    options keep it apart from all others.
    """

    scope: str | None
    scheduler: str
    options: Options = Options()
    alone: str | None = None
    feed: Feed | None = None

    @property
    def id(self) -> str:
        """A name that may be part of a stream's name and of a URL.

        >>> Group(scope=None, scheduler="fair").id, Group(scope="x", scheduler="latency").id
        ('all.fair', 'site-x.latency')
        >>> Group(scope=None, scheduler="fair", options=Options(signature="board")).id
        'all.fair.89d5ee48.signed-board'
        """
        scope = "all" if self.scope is None else f"site-{slug(self.scope)}"
        scheduler = slug(self.scheduler)
        if self.options == Options() and self.feed is None:
            return f"{scope}.{scheduler}"
        feed = () if self.feed is None else (self.feed,)
        digest = fingerprint((self.scheduler, self.options, self.alone, *feed))[:8]
        name = f"{scope}.{scheduler[:_MOST_BEFORE_DIGEST]}.{digest}"
        signature = self.options.signature
        return name if signature is None else signed(name, signature)

    @property
    def results(self) -> str:
        """The stream of its results, at the site that it is over or else the enabler's."""
        return results_stream(self.id)

    @property
    def decisions(self) -> str:
        """The stream that says which sites its results did without, at the enabler's site."""
        return decisions_stream(self.id)


def slug(name: str) -> str:
    """Return a short name of lower-case letters, digits and hyphens, different for each name.

    >>> slug("edge-1"), slug("Edge 1")
    ('edge-1', 'edge-1-852de0')
    """
    plain = _ODD.sub("-", name.lower())[:_MOST]
    return plain if plain == name else f"{plain}-{fingerprint(name)[:6]}"
