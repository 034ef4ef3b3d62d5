"""The enablers that announce themselves to the agent of this site."""

from collections.abc import Callable, Iterable

from mistbow.auth.credential import MAX_TEXT_BYTES
from mistbow.domains import check_domain
from mistbow.errors import InvalidRequestError
from mistbow.fabric import Enabler
from mistbow.loopback import is_loopback_url
from storage_agent.addresses import is_service_url
from storage_agent.membership.fact_size import MAX_FACT_BYTES, fits

LOST_S = 3.0
"""An enabler is lost after this time without an announcement."""

_MAX_SITES = 1000
_MAX_LABELS = 64

Monotonic = Callable[[], float]
"""Returns the seconds since a fixed moment."""


class Enablers:
    """The enablers of this site that have announced themselves: one for each domain."""

    def __init__(self, monotonic: Monotonic) -> None:
        self._monotonic = monotonic
        self._announced: dict[str, tuple[Enabler, float]] = {}
        self._checked = monotonic()

    def all(self) -> tuple[Enabler, ...]:
        """Return the enablers, ordered by domain."""
        return tuple(self._announced[domain][0] for domain in sorted(self._announced))

    def announce(self, enabler: Enabler) -> None:
        """Add an enabler, or renew its announcement."""
        self._announced[enabler.domain] = enabler, self._monotonic()

    def restore(self, enablers: Iterable[Enabler]) -> None:
        """Add the enablers in the stored facts; each one expires unless it announces itself."""
        for enabler in enablers:
            self._announced.setdefault(enabler.domain, (enabler, self._monotonic()))

    def remove(self, domain: str) -> None:
        """Remove the enabler of a domain, if there is one."""
        self._announced.pop(domain, None)

    def expire(self) -> list[str]:
        """Remove the lost enablers, and return their domains.

        Call this method several times a second: after a longer pause it removes none, because the
        agent itself may have been paused.
        """
        now = self._monotonic()
        if now - self._checked > LOST_S / 2:
            self._announced = {name: (one, now) for name, (one, _) in self._announced.items()}
        self._checked = now
        lost = [name for name, (_, at) in self._announced.items() if now - at > LOST_S]
        for name in lost:
            del self._announced[name]
        return lost


def check_enabler(domain: str, enabler: Enabler, *, on_loopback: bool) -> None:
    """Raise ``InvalidRequestError`` if an announcement has an invalid value.

    ``domain``: the domain in the path of the request. ``on_loopback``: whether the enabler must be
    on this machine, because the fog has no token.
    """
    try:
        check_domain(domain)
    except ValueError as error:
        raise InvalidRequestError(f"domain: {error}") from error
    rules = {
        f"domain: the body must name {domain}, as the path does": enabler.domain == domain,
        "url: the address is not of the form http://HOST:PORT": is_service_url(enabler.url),
        "url: without MISTBOW_TOKEN, an enabler must listen on loopback": not on_loopback
        or is_loopback_url(enabler.url),
        f"sites: at most {_MAX_SITES} sites are allowed": len(enabler.sites.sites) <= _MAX_SITES,
        f"sites: at most {_MAX_LABELS} labels are allowed": len(enabler.sites.labels)
        <= _MAX_LABELS,
        f"at most {MAX_FACT_BYTES} bytes are allowed: use fewer or shorter names and labels": (
            fits(enabler)
        ),
        f"credential: at most {MAX_TEXT_BYTES} characters are allowed": len(enabler.credential)
        <= MAX_TEXT_BYTES,
        "generation, epoch: the numbers must be at least 0": enabler.generation >= 0
        and enabler.epoch >= 0,
    }
    for problem, is_met in rules.items():
        if not is_met:
            raise InvalidRequestError(problem)
