"""Callers of requests, and the rights of their tokens."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, get_args

from mistbow.auth.credential import Credential, Kind
from mistbow.errors import ForbiddenError, OutOfReachError

TokenScope = Literal["ingest", "read", "admin"]
"""The scopes that a token can have."""

ServiceScope = Literal["append", "replicate", "order", "announce", "join", "adopt"]
"""The scopes of services; ``admin`` includes the first three of them."""

Scope = TokenScope | ServiceScope
SCOPES: frozenset[TokenScope] = frozenset(get_args(TokenScope))

SERVICES_ONLY: frozenset[Scope] = frozenset({"announce", "join", "adopt"})
"""The scopes of services and the fog's token only: services contact addresses in such requests."""

REACH_HINT = (
    "The operator of the fog decides which sites a service reaches: mistbow identity issue --reach"
)

_MAX_QUOTED = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: the name and the rights of the sender's token.

    ``entity_prefix``: the token covers only entities whose names begin with this prefix.
    ``signatures``: some insights have a signature, which is a name that protects their results; the
    token may read unsigned results, and results with one of these signatures. None: the token may
    read all results. ``credential``: of a service that signed the request; None: the caller has a
    token. ``site``: the site at which a service has these scopes. ``home``: the site of a service,
    also if its request was forwarded and may read only the data of that site.
    """

    name: str
    scopes: frozenset[Scope]
    entity_prefix: str = ""
    signatures: frozenset[str] | None = frozenset()
    credential: Credential | None = None
    site: str = ""
    home: str | None = None

    def has_scope(self, scope: Scope) -> bool:
        """Return whether the caller has a scope.

        The scope ``admin`` includes all scopes but those that are for services only.
        """
        return scope in self.scopes or ("admin" in self.scopes and scope not in SERVICES_ONLY)

    def at(self, site: str) -> "Caller":
        """Return the caller with its rights at a site, this site or another.

        The rights of a token are the same at each site.
        """
        if self.credential is None:
            return self
        return replace(self, scopes=scopes_at(self.credential, site), site=site)

    def as_forwarder(self) -> "Caller":
        """Return the caller with its rights for a request that it forwards for another caller."""
        if self.credential is None:
            return self
        return replace(self, scopes=forwarded_scopes_at(self.credential, self.site))

    def check_site(self, site: str, what: str) -> None:
        """Raise ``OutOfReachError`` if a peer is of another site than the data; see ``is_peer``.

        ``what`` describes the data of ``site`` in the error.
        """
        if self.is_peer and self.home != site:
            raise OutOfReachError(
                f"the {self.name} of the site {self.home} may not read {what}", hint=REACH_HINT
            )

    @property
    def is_peer(self) -> bool:
        """Whether the caller is an agent of another site that may read only data of its site."""
        return self.home is not None and "replicate" in self.scopes and not self.has_scope("read")

    @property
    def _reaches_here(self) -> bool:
        return self.credential is None or self.credential.reaches(self.site)

    def check_entities(self, entities: Iterable[str]) -> None:
        """Raise ``ForbiddenError`` if an entity's name does not begin with the token's entity
        prefix.
        """
        if not self.entity_prefix:
            return
        for entity in entities:
            if not entity.startswith(self.entity_prefix):
                raise ForbiddenError(
                    f"entityID: {entity[:_MAX_QUOTED]!r} does not begin with "
                    f"{self.entity_prefix!r}, the entity prefix of the token {self.name}",
                    hint="Use a token whose entity prefix covers this entity.",
                )

    def has_signature(self, signature: str | None) -> bool:
        """Return whether the token may read results with a signature.

        ``signature``: None: the results have no signature.
        """
        return signature is None or self.signatures is None or signature in self.signatures

    def check_signature(self, what: str, signature: str | None) -> None:
        """Raise ``ForbiddenError`` if the token may not read data with a signature.

        ``what`` describes the data in the error. ``signature``: None: the data has no signature.
        """
        if not self.has_signature(signature):
            raise ForbiddenError(
                f"{what} requires a token with the signature {signature}, "
                f"which the token {self.name} does not have",
                hint=f"Create one: mistbow token add NAME --scope read --signature {signature}",
            )

    def restricted_to(
        self, name: str, entity_prefix: str, signatures: frozenset[str] | None
    ) -> "Caller":
        """Return a caller with this caller's scopes, and with the name and limits of a forwarded
        caller, which is not a service.

        If this caller is a service that does not reach this site, the returned caller is limited to
        the data of the site of the service.
        """
        return replace(
            self,
            name=name,
            scopes=self.scopes - SERVICES_ONLY,
            entity_prefix=entity_prefix,
            signatures=signatures,
            credential=None,
            home=None if self._reaches_here else self.home,
        )

    def as_peer(self, name: str, home: str) -> "Caller":
        """Return a forwarded agent of the site ``home``, which may read only the data of its site.

        The caller that forwards the request must itself have the scope ``replicate``. A caller that
        does not reach this site may name only its own site as ``home``. Otherwise it could read the
        data of other sites, and evade the limits on requests by naming many sites.
        """
        may_forward = self.has_scope("replicate") and (self._reaches_here or home == self.home)
        scopes: frozenset[Scope] = frozenset({"replicate"} if may_forward else ())
        named = home if may_forward else self.home
        return replace(self, name=name, scopes=scopes, credential=None, home=named)

    def scoped_key(self, key: str) -> str:
        """Return an idempotency key that contains the caller's name.

        Therefore, equal keys of two callers are different after the conversion. Keys of the fog
        itself do not change.

        >>> FOG.scoped_key("k"), Caller("sensor", frozenset()).scoped_key("k")
        ('k', 'sensor\\nk')
        """
        # Neither a token's name nor a header can contain the separator.
        return key if self.name == FOG.name else f"{self.name}\n{key}"


def scopes_at(credential: Credential, site: str) -> frozenset[Scope]:
    """Return the scopes of a service at a site.

    >>> from mistbow.clock import utc_now
    >>> edge = Credential("e", "agent", "edge", "0" * 32, "0" * 64, utc_now())
    >>> sorted(scopes_at(edge, "edge") - scopes_at(edge, "cloud"))
    ['append', 'ingest', 'read']
    """
    own = _OWN_SCOPES[credential.kind]
    if site == credential.site:
        return own
    if credential.reaches(site):
        return own - {"announce"}
    # The scopes that agents need at each other's sites, independently of their reach.
    return own & {"join", "replicate"}


def forwarded_scopes_at(credential: Credential, site: str) -> frozenset[Scope]:
    """Return the scopes that a service has at a site for a caller whose request it forwards.

    The service has checked the caller's scope. Only enablers, and agents that reach all sites,
    forward requests of administration. An agent with a list of sites forwards only the reads and
    the writes of its worker to these sites.
    """
    is_core = credential.reaches_all and site != credential.site
    forwards = credential.reaches(site) and (
        credential.kind == "enabler" or (credential.kind == "agent" and is_core)
    )
    return scopes_at(credential, site) | (frozenset({"admin"}) if forwards else frozenset())


def service_caller(credential: Credential, site: str) -> Caller:
    """Return the caller of a service's requests at a site."""
    name = f"{credential.kind} {credential.name}"
    scopes = scopes_at(credential, site)
    return Caller(
        name, scopes, signatures=None, credential=credential, site=site, home=credential.site
    )


_OWN_SCOPES: Mapping[Kind, frozenset[Scope]] = {
    "agent": frozenset({"join", "replicate", "ingest", "read", "append"}),
    "worker": frozenset({"announce", "read", "append"}),
    "enabler": frozenset({"announce", "adopt", "order", "read", "append"}),
    "monitor": frozenset({"ingest", "read"}),
}
"""The scopes of services at their own site, by kind."""

FOG = Caller("of the fog", SERVICES_ONLY | {"admin"}, signatures=None)
"""The caller whose requests have the fog's own token.

This is also the caller of code outside of requests, and of requests to a service without tokens.
"""

NOBODY = Caller("nobody", frozenset())
"""The caller of requests for public pages, which has no rights."""

_current: ContextVar[Caller] = ContextVar("caller", default=FOG)


def current_caller() -> Caller:
    """Return the caller of the current request; outside of requests, return ``FOG``."""
    return _current.get()


@contextmanager
def on_behalf_of(caller: Caller) -> Iterator[None]:
    """Make ``current_caller()`` return ``caller`` inside the ``with`` block."""
    before = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(before)
