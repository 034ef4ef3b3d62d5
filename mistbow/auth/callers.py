"""Callers of requests, and the rights of their tokens."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, get_args

from mistbow.errors import ForbiddenError

Scope = Literal["ingest", "read", "admin"]
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

_MAX_QUOTED = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: the name and the rights of the sender's token.

    ``entity_prefix``: the token covers only entities whose names begin with this prefix.
    ``signatures``: some insights have a signature, which is a name that protects their results; the
    token may read unsigned results, and results with one of these signatures. None: the token may
    read all results.
    """

    name: str
    scopes: frozenset[Scope]
    entity_prefix: str = ""
    signatures: frozenset[str] | None = frozenset()

    def has_scope(self, scope: Scope) -> bool:
        """Return whether the token has a scope; the scope ``admin`` includes all scopes."""
        return scope in self.scopes or "admin" in self.scopes

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
        caller.
        """
        return replace(self, name=name, entity_prefix=entity_prefix, signatures=signatures)

    def scoped_key(self, key: str) -> str:
        """Return an idempotency key that contains the caller's name.

        Therefore, equal keys of two callers are different after the conversion. Keys of the fog
        itself do not change.

        >>> FOG.scoped_key("k"), Caller("sensor", frozenset()).scoped_key("k")
        ('k', 'sensor\\nk')
        """
        # Neither a token's name nor a header can contain the separator.
        return key if self.name == FOG.name else f"{self.name}\n{key}"


FOG = Caller("of the fog", frozenset({"admin"}), signatures=None)
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
