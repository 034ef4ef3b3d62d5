"""The enablers of the fabric, and the domain to which a deployment belongs."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from analytics_enabler.domains.sources import sources_of
from analytics_enabler.fabric_view import ALL_SITES, FabricView, has_site
from analytics_enabler.semantics import Definition, sites_of
from mistbow.domains import Selector
from mistbow.errors import ConflictError
from mistbow.fabric import Enabler, Fabric


@dataclass(frozen=True, slots=True)
class KnownEnabler:
    """An enabler of the fabric, and its site.

    ``is_reachable``: whether the agent of the reading enabler reaches the site.
    """

    site: str
    enabler: Enabler
    is_reachable: bool

    @property
    def rank(self) -> tuple[int, int, str]:
        """The order of the enablers of one domain: the enabler with the greatest rank is active."""
        return self.enabler.generation, self.enabler.epoch, self.site


class DomainDirectory:
    """The domains of the fabric; ``domain``, ``selector``: the name and the sites of this one.

    ``is_fenced``: returns whether another enabler of this domain has fenced this one. A fenced
    enabler does not announce itself, so the announcement at its site is that of the other one.
    """

    def __init__(
        self,
        domain: str,
        selector: Callable[[], Selector],
        fabric_view: FabricView,
        is_fenced: Callable[[], bool] = lambda: False,
    ) -> None:
        self.domain = domain
        self._selector = selector
        self._fabric_view = fabric_view
        self._is_fenced = is_fenced

    @property
    def is_alone(self) -> bool:
        """Whether this domain is the only domain, and has all sites."""
        return self._selector() == ALL_SITES and not self.other_domains()

    def check_owned(self, definitions: Iterable[Definition]) -> None:
        """Raise ``ConflictError`` if insights read sites outside the domain of this enabler."""
        if self.domain not in self.owners(definitions):
            raise ConflictError(
                f"the insights read sites outside the domain {self.domain}, to which the "
                "deployment belongs",
                hint="Delete this deployment, and submit the insights as a new one.",
            )

    def others(self) -> list[KnownEnabler]:
        """Return all enablers of the fabric except this one."""
        fabric = self._fabric_view.whole
        if fabric is None:
            return []
        own, is_fenced = self.domain, self._is_fenced()
        return [*_others(fabric, own), *(_announced_here(fabric, own) if is_fenced else ())]

    def rivals(self) -> list[KnownEnabler]:
        """Return the other enablers of this domain, whether reachable or not."""
        return [each for each in self.others() if each.enabler.domain == self.domain]

    def successor(self) -> KnownEnabler | None:
        """Return the enabler of this domain and site that has fenced this one; None: it is gone."""
        fabric = self._fabric_view.whole
        if fabric is None or not self._is_fenced():
            return None
        return next(_announced_here(fabric, self.domain), None)

    def warnings(self) -> list[str]:
        """Return why a takeover would change the sites that the domain has."""
        fabric = self._fabric_view.whole
        if fabric is None:
            return []
        own = _members(self._selector(), fabric)
        return [
            f"the enabler at the site {rival.site} has other sites in the domain {self.domain} "
            f"({_listed(members, False)}) than this one ({_listed(own, False)}): give both the "
            "same MISTBOW_DOMAIN_SITES and MISTBOW_DOMAIN_LABELS, or names of different domains"
            for rival in self.rivals()
            if (members := _members(rival.enabler.sites, fabric)) != own
        ]

    def active(self, domain: str) -> KnownEnabler | None:
        """Return the reachable active enabler of a domain, except this enabler.

        None: no such enabler is reachable.
        """
        found = [
            each
            for each in self.others()
            if each.enabler.domain == domain and each.is_reachable and each.enabler.is_active
        ]
        return max(found, key=lambda each: each.rank, default=None)

    def other_domains(self) -> list[str]:
        """Return the names of the other domains, whether reachable or not."""
        return sorted({each.enabler.domain for each in self.others()} - {self.domain})

    def larger(self) -> KnownEnabler | None:
        """Return the enabler of the smallest larger domain with a reachable enabler.

        A larger domain has all sites of this domain, and further ones. None: no larger domain has a
        reachable enabler.
        """
        fabric = self._fabric_view.whole
        if fabric is None:
            return None
        own = _members(self._selector(), fabric)
        found = [
            (len(members), name)
            for name, selector in self._selectors().items()
            if own < (members := _members(selector, fabric)) and self.active(name) is not None
        ]
        return self.active(min(found)[1]) if found else None

    def _selectors(self) -> dict[str, Selector]:
        """Return domain -> sites, for this domain and all others."""
        domains = {self.domain: self._selector()}
        for each in self.others():
            domains.setdefault(each.enabler.domain, each.enabler.sites)
        return domains

    def owners(self, definitions: Iterable[Definition]) -> list[str]:
        """Return the domains that have all sources of a deployment, the smallest first.

        Raises ``ConflictError`` if no domain has all sources.
        """
        fabric = self._fabric_view.whole
        if fabric is None:
            return [self.domain]
        names = sites_of(fabric)
        read = [sources_of(definition, names) for definition in definitions]
        everything = None in read
        sources = names.names if everything else frozenset().union(*(each or () for each in read))
        selectors = self._selectors()
        members = {name: _members(selector, fabric) for name, selector in selectors.items()}
        owners = [name for name, sites in members.items() if sources <= sites]
        if not owners:
            raise ConflictError(
                f"no domain has all sites that these insights read: {_listed(sources, everything)}",
                hint="Name the sites that the insights read (WHEN site IN ('a', 'b')), or start an "
                "enabler whose domain has all of them.",
            )
        return sorted(owners, key=lambda name: (len(members[name]), name != self.domain, name))


def _others(fabric: Fabric, own: str) -> Iterable[KnownEnabler]:
    """Yield the enablers of the fabric except that of the domain ``own`` at the agent's site.

    An enabler that may use its own site only is no rival of one that may use other sites.
    """
    wide = {own}
    for site in fabric.sites:
        wide |= {enabler.domain for enabler in site.enablers if not enabler.own_site_only}
    for site in fabric.sites:
        for enabler in site.enablers:
            if (site.name, enabler.domain) == (fabric.site, own):
                continue
            if enabler.domain in wide and enabler.own_site_only:
                continue
            yield KnownEnabler(site.name, enabler, site.reachable)


def _announced_here(fabric: Fabric, domain: str) -> Iterator[KnownEnabler]:
    """Yield the enabler of a domain that is announced at the agent's site, if there is one."""
    for site in fabric.sites:
        for enabler in site.enablers:
            if (site.name, enabler.domain) == (fabric.site, domain):
                yield KnownEnabler(site.name, enabler, site.reachable)


def _members(selector: Selector, fabric: Fabric) -> frozenset[str]:
    return frozenset(site.name for site in fabric.sites if has_site(selector, site))


def _listed(sources: Collection[str], everything: bool) -> str:
    return "all sites" if everything else ", ".join(sorted(sources)) or "none"
