"""The domains of a worker's fragments, and the newest order of each domain."""

import msgspec

from analytics.plan.orders import Lease
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import ConflictError, FencedError


class Domains:
    """The domain of each fragment, and the lease and number of the newest order of each domain.

    All are in memory only: after a restart of the worker, no fragment runs.
    """

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Lease, int]] = {}
        self._of_fragment: dict[str, str] = {}

    def accept(self, domain: str, lease: Lease, number: int = 0) -> None:
        """Record the lease and the number of an order.

        Raises ``FencedError`` if a newer order was recorded. An order whose request has timed out
        may still be queued, and then arrives after its successor. ``number``: 0: unknown. The
        details of the error have the lease of the newer order.
        """
        newest, last = self._newest.get(domain, (lease, 0))
        if lease < newest:
            raise FencedError(
                f"the order under {lease} of the domain {domain} is outdated: this worker obeys "
                f"the enabler with {newest}",
                hint="Only one enabler plans a domain. Stop one of the two, or give it another "
                "domain. If no other enabler exists, this one raises its lease soon.",
                details=msgspec.to_builtins(newest),
            )
        if lease == newest and 0 < number < last:
            raise FencedError(
                f"the order {number} of the domain {domain} is outdated: this worker obeyed the "
                f"later order {last}",
                details=msgspec.to_builtins(newest),
            )
        self._newest[domain] = lease, number

    def of(self, fragment_id: str) -> str:
        """Return the domain of a fragment; ``DEFAULT_DOMAIN`` if no order contained it."""
        return self._of_fragment.get(fragment_id, DEFAULT_DOMAIN)

    def assign(self, fragment_id: str, domain: str) -> None:
        """Record the domain of a fragment."""
        if domain == DEFAULT_DOMAIN:
            self._of_fragment.pop(fragment_id, None)
        else:
            self._of_fragment[fragment_id] = domain

    def check_owner(self, fragment_id: str, domain: str, *, runs: bool) -> None:
        """Raise ``ConflictError`` if a running fragment belongs to another domain."""
        owner = self.of(fragment_id)
        if runs and owner != domain:
            raise ConflictError(
                f"the fragment {fragment_id} belongs to the domain {owner}",
                hint=f"Order it in the domain {owner}, or stop it first.",
            )
