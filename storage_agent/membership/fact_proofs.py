"""What credentials prove about the facts of sites: names and reach of services, and removals.

The agent of a site publishes the credentials of its services as facts, so that other agents compare
what the site says about them with what the fog's key has signed.
"""

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec
from cachetools import LRUCache

from mistbow.auth.credential import Credential, Kind
from mistbow.auth.identity import Identity, IdentityFile, Proof
from mistbow.errors import UnauthorizedError
from mistbow.fabric import Enabler, Worker
from storage_agent.membership import facts
from storage_agent.membership.facts import Facts

_MAX_VERIFIED = 10_000

_POD = re.compile("-[a-z0-9]{5,10}-[a-z0-9]{5}")
"""What Kubernetes appends to the name of a Deployment for a pod: the hash of its template, and a
random part."""


class FactProofs:
    """Compares facts with the credentials of the services that they describe.

    ``proof``: what this agent proves to others. Without an identity, all facts are believed. With
    an identity and the fog's token, so are facts without a credential: the fog changes over.
    """

    def __init__(self, proof: Proof) -> None:
        self._file = proof if isinstance(proof, IdentityFile) else None
        self._needs_credential = self._file is not None and not self._file.token
        self._identity: Identity | None = None
        self._verified: LRUCache[str, Credential | None] = LRUCache(_MAX_VERIFIED)
        """Text -> the verified credential; None: the text is no credential of this fog."""

    @property
    def own_credential(self) -> str:
        """The credential of this agent as text; empty: it has none at present."""
        try:
            return "" if self._file is None else self._file.current().text
        except UnauthorizedError:
            return ""

    def expiry(self, site: str, text: str) -> int | None:
        """Return the expiry (ms) of the identity of a site's agent; None: it is not known."""
        found = self._find(text, "agent", site)
        return None if found is None else to_ms(found.expires)

    def workers(self, site: str, published: Facts) -> tuple[Worker, ...]:
        """Return the workers in a site's facts; see ``worker``."""
        return tuple(
            self.worker(site, each, facts.credential(published, facts.worker_key(each.name)))
            for each in facts.workers(published)
        )

    def worker(self, site: str, worker: Worker, text: str) -> Worker:
        """Return a worker with what its credential proves: its reach, and whether it has the name.

        A worker without a credential may use its own site only. ``text``: the credential.
        """
        if self._file is None:
            return worker
        found = self._find(text, "worker", site)
        if found is None:
            confined = worker.own_site_only or self._needs_credential
            return msgspec.structs.replace(
                worker, own_site_only=confined, has_proven_name=False, identity_expires=None
            )
        return msgspec.structs.replace(
            worker,
            own_site_only=found.is_confined,
            has_proven_name=has_name(found, worker.name),
            identity_expires=to_ms(found.expires),
        )

    def enablers(self, site: str, published: Facts) -> Iterator[Enabler]:
        """Yield the enablers in a site's facts; see ``enabler``."""
        for each in facts.enablers(published):
            text = facts.credential(published, facts.enabler_key(each.domain))
            if (found := self.enabler(site, each, text)) is not None:
                yield found

    def enabler(self, site: str, enabler: Enabler, text: str) -> Enabler | None:
        """Return an enabler with what its credential proves; None: it is not to be believed.

        Its domain must belong to its credential, and has no site that the credential does not
        reach. ``text``: the credential.
        """
        found = self._find(text, "enabler", site)
        if found is None:
            return None if self._needs_credential else enabler
        if not found.may_plan(enabler.domain):
            return None
        return msgspec.structs.replace(
            enabler,
            sites=msgspec.structs.replace(enabler.sites, within=found.reached_sites),
            own_site_only=found.is_confined,
            identity_expires=to_ms(found.expires),
        )

    def removals(self, site: str, published: Facts) -> Iterator[tuple[str, int]]:
        """Yield (removed site, time in ms) of the removals at a site that apply at other sites too.

        A person removes a site at an agent that reaches it; an edge removes nothing elsewhere.
        """
        found = self._find(facts.credential(published, facts.SITE), "agent", site)
        for removed, since in facts.forgotten_sites(published).items():
            if not self._needs_credential if found is None else found.reaches(removed):
                yield removed, since

    def _find(self, text: str, kind: Kind, site: str) -> Credential | None:
        """Return the credential of a service of a kind at a site; None: the text proves nothing."""
        if self._file is None or not text:
            return None
        try:
            identity = self._file.current()
            if identity is not self._identity:
                self._identity = identity
                self._verified.clear()
            if text not in self._verified:
                self._verified[text] = None
                self._verified[text] = identity.verify(text)
        except UnauthorizedError:
            return None
        found = self._verified.get(text)
        if found is None:
            return None
        is_right = (found.kind, found.site) == (kind, site) and identity.accepts(found)
        return found if is_right else None


def to_ms(time: datetime) -> int:
    """Return a time in ms since the epoch."""
    return int(time.timestamp() * 1000)


def has_name(credential: Credential, name: str) -> bool:
    """Return whether a worker's name belongs to a credential.

    It is the credential's name, perhaps without ``worker-``, or the name of a pod of a Deployment
    with this name.

    >>> from mistbow.clock import utc_now
    >>> one = Credential("worker-cloud", "worker", "cloud", "0" * 32, "0" * 64, utc_now())
    >>> [has_name(one, each) for each in ("worker-cloud", "cloud", "worker-cloud-5d9f8c7b6d-x2m4q")]
    [True, True, True]

    A site cannot take the names of a site whose name begins with its own:

    >>> [has_name(one, each) for each in ("worker-cloud-1", "worker-cloud-north-5d9f8c7b6d-x2m4q")]
    [False, False]
    """
    own = credential.name
    is_pod = _POD.fullmatch(name.removeprefix(own)) is not None and name.startswith(own)
    return name == own or f"worker-{name}" == own or is_pod
