"""Groups: insights that run together, with one plan."""

import re

import msgspec

from analytics.plan.feeds import Feed
from analytics.plan.nodes import fingerprint
from analytics_enabler.semantics.definition import Options
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.streams.schemas import decisions_stream, results_stream
from mistbow.streams.signatures import signed_name

_MAX_SLUG = 24
_MAX_BEFORE_DIGEST = 8  # the name of a stream must also fit a site and a signature
_NOT_IN_SLUG = re.compile(r"[^a-z0-9-]")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Insights that run in one query: they read the same sites with equal scheduler and options.

    ``scope``: the only site that the insights read; None: all sites. ``feed``: the stream that the
    insights read; None: raw points. ``alone``: the uid of the only insight in the group, if the
    options of the insight require a separate group. ``domain``: the domain whose enabler runs the
    group.
    """

    scope: str | None
    scheduler: str
    options: Options = Options()
    alone: str | None = None
    feed: Feed | None = None
    domain: str = DEFAULT_DOMAIN

    @property
    def id(self) -> str:
        """The id of the group, which is valid in stream names and URLs.

        >>> Group(scope=None, scheduler="fair").id, Group(scope="x", scheduler="latency").id
        ('all.fair', 'site-x.latency')
        >>> Group(scope=None, scheduler="fair", options=Options(signature="board")).id
        'all.fair.89d5ee48.signed-board'

        Groups of different domains have different ids. The domain is part of the digest, because
        the names of streams are limited.
        """
        scope = "all" if self.scope is None else f"site-{slug(self.scope)}"
        scheduler = slug(self.scheduler)
        is_default = self.domain == DEFAULT_DOMAIN
        if self.options == Options() and self.feed is None and is_default:
            return f"{scope}.{scheduler}"
        feed = () if self.feed is None else (self.feed,)
        domain = () if is_default else (self.domain,)
        digest = fingerprint((self.scheduler, self.options, self.alone, *feed, *domain))[:8]
        name = f"{scope}.{scheduler[:_MAX_BEFORE_DIGEST]}.{digest}"
        signature = self.options.signature
        return name if signature is None else signed_name(name, signature)

    @property
    def results(self) -> str:
        """The name of the stream of results.

        The stream is stored at the site ``scope``; without a scope, at the enabler's site.
        """
        return results_stream(self.id)

    @property
    def decisions(self) -> str:
        """The name of the stream that records which sites are missing in results.

        The stream is stored at the enabler's site.
        """
        return decisions_stream(self.id)


def slug(name: str) -> str:
    """Return a short name of lower-case letters, digits and hyphens, different for each ``name``.

    >>> slug("edge-1"), slug("Edge 1")
    ('edge-1', 'edge-1-852de0')
    """
    plain = _NOT_IN_SLUG.sub("-", name.lower())[:_MAX_SLUG]
    return plain if plain == name else f"{plain}-{fingerprint(name)[:6]}"
