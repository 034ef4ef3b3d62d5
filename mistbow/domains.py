"""Domains: each is a set of sites that one enabler at a time plans."""

import re
from collections.abc import Mapping

import msgspec

DEFAULT_DOMAIN = "all"
"""The domain of enablers and fragments whose domain is not set."""

_NAME = re.compile("[a-z0-9][a-z0-9-]{0,23}")


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """The sites of a domain: those with one of these names, or with all of these labels.

    Without names and labels, the domain has all sites. The region of a site is its label
    ``region``. ``within``: the only sites that can be selected; empty: all sites.
    """

    sites: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    within: tuple[str, ...] = ()

    def selects(self, site: str, labels: Mapping[str, str]) -> bool:
        """Return whether a site with these labels is in the domain.

        >>> Selector(sites=("a",)).selects("a", {}), Selector(labels={"rack": "7"}).selects("a", {})
        (True, False)
        >>> Selector(within=("a",)).selects("a", {}), Selector(within=("a",)).selects("b", {})
        (True, False)
        """
        if self.within and site not in self.within:
            return False
        if not self.sites and not self.labels:
            return True
        has_labels = bool(self.labels) and self.labels.items() <= labels.items()
        return site in self.sites or has_labels


def check_domain(name: str) -> str:
    """Return the name of a domain; raises ``ValueError`` if the name is malformed."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} is not a valid name of a domain: write at most 24 lower-case letters, "
            "digits and '-'"
        )
    return name
