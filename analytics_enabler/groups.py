"""Groups: the insights that run together, as one plan."""

import re

import msgspec

from mistbow.plan.nodes import fingerprint
from mistbow.streams.schemas import decisions_stream, results_stream

_MOST = 24
_ODD = re.compile(r"[^a-z0-9-]")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Insights over the same site (None: over all of them) and of the same scheduler."""

    scope: str | None
    scheduler: str

    @property
    def id(self) -> str:
        """A name that may be part of a stream's name and of a URL.

        >>> Group(scope=None, scheduler="fair").id, Group(scope="x", scheduler="latency").id
        ('all.fair', 'site-x.latency')
        """
        scope = "all" if self.scope is None else f"site-{slug(self.scope)}"
        return f"{scope}.{slug(self.scheduler)}"

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
