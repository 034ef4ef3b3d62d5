"""What credentials prove about the facts of sites: names and reach of services, and removals.

The agent of a site publishes the credentials of its services as facts. Other agents compare the
other facts of the site with these credentials, which the fog's key has signed.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import msgspec
from cachetools import LRUCache

from mistbow.auth.credential import Credential, Kind
from mistbow.auth.identity import Identity, IdentityFile, Proof
from mistbow.errors import UnauthorizedError
from mistbow.fabric import Enabler, ExpiredIdentity, Worker
from storage_agent.membership import facts
from storage_agent.membership.facts import Facts

_MAX_VERIFIED = 10_000

_POD = re.compile("-[a-z0-9]{5,10}-[a-z0-9]{5}")
"""The end of the name of a Deployment's pod: the hash of the template, and a random part."""


class FactProofs:
    """Compares facts with the credentials of the services that they describe.

    ``proof``: the proof of this agent to others. Without an identity, the agent accepts all facts.
    With an identity and the fog's token, it also accepts facts without a credential, because the
    fog is migrating.
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
        found = self._read(text, "agent", site)
        return None if found is None else to_ms(found.expires)

    def is_expired(self, text: str) -> bool:
        """Return whether a credential is one of this fog that has expired, and is not revoked."""
        found = self._signed(text)
        return found is not None and not self._accepts(found)

    def expired(self, site: str, published: Facts) -> Iterator[ExpiredIdentity]:
        """Yield the expired identities in a site's facts, of workers and enablers.

        Such a service cannot announce itself any more, so the fact about it has been removed.
        """
        for kind, service, text in facts.credentials(published):
            found = self._read(text, kind, site)
            if found is not None and not self._accepts(found):
                yield ExpiredIdentity(kind=kind, service=service, expired=to_ms(found.expires))

    def workers(self, site: str, published: Facts) -> tuple[Worker, ...]:
        """Return the workers in a site's facts; see ``worker``."""
        return tuple(
            self.worker(site, each, facts.credential(published, facts.worker_key(each.name)))
            for each in facts.workers(published)
        )

    def worker(self, site: str, worker: Worker, text: str) -> Worker:
        """Return a worker with the proven reach, and with whether its name is proven.

        A worker without a credential may use its own site only. ``text``: the credential.
        """
        if self._file is None:
            return worker
        found = self._read(text, "worker", site)
        if found is None:
            confined = worker.own_site_only or self._needs_credential
            return msgspec.structs.replace(
                worker, own_site_only=confined, has_proven_name=False, identity_expires=None
            )
        is_accepted = self._accepts(found)
        return msgspec.structs.replace(
            worker,
            own_site_only=found.is_confined or not is_accepted,
            has_proven_name=is_accepted and has_name(found, worker.name),
            identity_expires=to_ms(found.expires),
        )

    def enablers(self, site: str, published: Facts) -> Iterator[Enabler]:
        """Yield the enablers in a site's facts; see ``enabler``."""
        for each in facts.enablers(published):
            text = facts.credential(published, facts.enabler_key(each.domain))
            if (found := self.enabler(site, each, text)) is not None:
                yield found

    def enabler(self, site: str, enabler: Enabler, text: str) -> Enabler | None:
        """Return an enabler with the sites that its credential proves; None: not accepted.

        Its domain must belong to its credential, and has no site that the credential does not
        reach. ``text``: the credential.
        """
        found = self._read(text, "enabler", site)
        if found is None:
            return None if self._needs_credential else enabler
        if not (self._accepts(found) and found.may_plan(enabler.domain)):
            return None
        return msgspec.structs.replace(
            enabler,
            sites=msgspec.structs.replace(enabler.sites, within=found.reached_sites),
            own_site_only=found.is_confined,
            identity_expires=to_ms(found.expires),
        )

    def removals(self, site: str, published: Facts) -> Iterator[tuple[str, int]]:
        """Yield (removed site, time in ms) of the removals at a site that apply at other sites too.

        A person removes a site at an agent that reaches all sites. A removal at another agent,
        which may have been stolen, applies there only: not even to the agent's own site, whose
        replicas would be lost.
        """
        found = self._read(facts.credential(published, facts.SITE), "agent", site)
        if not self._needs_credential if found is None else self._has_all_rights(found):
            yield from facts.forgotten_sites(published).items()

    def may_state(self, site: str, published: Facts, about: str) -> bool:
        """Return whether a site's facts about the site ``about``, in its reach, are accepted."""
        found = self._read(facts.credential(published, facts.SITE), "agent", site)
        if found is None:
            return not self._needs_credential
        return found.reaches(about) and self._accepts(found)

    def may_state_with(self, proven: Credential, about: str) -> bool:
        """Return whether an agent's statements about the site ``about`` are accepted.

        ``proven``: the credential that the agent itself has proven.
        """
        return self._current() is not None and proven.reaches(about) and self._accepts(proven)

    def _has_all_rights(self, credential: Credential) -> bool:
        return credential.reaches_all and self._accepts(credential)

    def _accepts(self, credential: Credential) -> bool:
        """Return whether a credential that was read is neither revoked nor expired."""
        return self._identity is not None and self._identity.accepts(credential)

    def _read(self, text: str, kind: Kind, site: str) -> Credential | None:
        """Return the credential of a service of a kind at a site; it may have expired.

        None: the text is not a valid credential of this service: it is of another fog or service,
        or is revoked.
        """
        found = self._signed(text)
        is_right = found is not None and (found.kind, found.site) == (kind, site)
        return found if is_right else None

    def _signed(self, text: str) -> Credential | None:
        """Return the content of a credential that this fog has signed, and not revoked."""
        identity = self._current() if text else None
        if identity is None:
            return None
        if text not in self._verified:
            self._verified[text] = None
            with suppress(UnauthorizedError):
                self._verified[text] = identity.read(text)
        found = self._verified.get(text)
        return None if found is None or identity.is_revoked(found) else found

    def _current(self) -> Identity | None:
        """Return this agent's own identity; None: it has none at present."""
        try:
            identity = None if self._file is None else self._file.current()
        except UnauthorizedError:
            return None
        if identity is not None and identity is not self._identity:
            self._identity = identity
            self._verified.clear()
        return identity


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

    A site cannot take the names of a site whose name begins or ends with its own:

    >>> [has_name(one, each) for each in ("worker-cloud-1", "worker-cloud-north-5d9f8c7b6d-x2m4q")]
    [False, False]
    >>> two = Credential("worker-worker-a", "worker", "worker-a", "0" * 32, "0" * 64, utc_now())
    >>> has_name(two, "worker-worker-a"), has_name(two, "worker-a")
    (True, False)
    """
    own = credential.name
    is_pod = _POD.fullmatch(name.removeprefix(own)) is not None and name.startswith(own)
    # The identity of a site "worker-a" does not have the name of the identity of the site "a".
    is_short = f"worker-{name}" == own and not name.startswith("worker-")
    return name == own or is_short or is_pod
