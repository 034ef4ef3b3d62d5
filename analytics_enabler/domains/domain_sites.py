"""The sites of an enabler's domain, by its settings and the present reach of its identity."""

from analytics_enabler.settings import EnablerSettings
from mistbow.domains import Selector
from mistbow.errors import UnauthorizedError
from mistbow.telemetry import get_logger

log = get_logger(__name__)


class DomainSites:
    """The sites of the domain: a new identity of the enabler takes effect without a restart.

    While the enabler has no valid identity, its former sites remain.
    """

    def __init__(self, settings: EnablerSettings) -> None:
        self._settings = settings
        self._selector = settings.selector

    def selector(self) -> Selector:
        """Return the present sites of the domain."""
        try:
            present = self._settings.selector
        except UnauthorizedError:
            return self._selector
        if present != self._selector:
            self._selector = present
            log.info("domain_sites_changed", domain=self._settings.domain, within=present.within)
        return self._selector

    def warnings(self) -> list[str]:
        """Return why other services ignore the enabler, although its identity is valid."""
        file, domain = self._settings.identity, self._settings.domain
        try:
            found = None if file is None else file.current().credential
        except UnauthorizedError:
            return []  # a warning of the identity itself
        if found is None or found.may_plan(domain):
            return []
        return [
            f"the domain {domain} does not belong to the identity {found.name}: other services "
            f"ignore the enabler; issue the identity enabler-{domain}"
        ]
