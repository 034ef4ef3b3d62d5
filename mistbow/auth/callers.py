"""Who made the request that is being answered, and what its token opens."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, get_args

from mistbow.errors import ForbiddenError

Scope = Literal["ingest", "read", "admin"]
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

_MOST_QUOTED = 100


@dataclass(frozen=True, slots=True)
class Caller:
    """A token's name and rights; with a prefix only over entities that begin with it.

    ``signatures``: those that it carries, which open results of signed insights; None is all.
    """

    name: str
    scopes: frozenset[Scope]
    entity_prefix: str = ""
    signatures: frozenset[str] | None = frozenset()

    def may(self, scope: Scope) -> bool:
        """Tell whether the token has a scope; admin implies the others."""
        return scope in self.scopes or "admin" in self.scopes

    def check_entities(self, entities: Iterable[str]) -> None:
        """Refuse entities that do not begin with the prefix; raises ``ForbiddenError``."""
        if not self.entity_prefix:
            return
        for entity in entities:
            if not entity.startswith(self.entity_prefix):
                raise ForbiddenError(
                    f"entityID: {entity[:_MOST_QUOTED]!r} does not begin with "
                    f"{self.entity_prefix!r}, as all must that the token {self.name} is for",
                    hint="Use a token for this entity.",
                )

    def carries(self, signature: str | None) -> bool:
        """Tell whether the token opens what is signed so; what is not signed opens to all."""
        return signature is None or self.signatures is None or signature in self.signatures

    def check_signature(self, what: str, signature: str | None) -> None:
        """Refuse who does not carry a signature ``what`` is read by; raises ``ForbiddenError``."""
        if not self.carries(signature):
            raise ForbiddenError(
                f"{what} takes a token with the signature {signature}, "
                f"which the token {self.name} does not carry",
                hint=f"mistbow token add NAME --scope read --signature {signature} makes one.",
            )

    def narrowed(
        self, name: str, entity_prefix: str, signatures: frozenset[str] | None
    ) -> "Caller":
        """Return this caller with the name and the bounds of another, on whose behalf it asks."""
        return replace(self, name=name, entity_prefix=entity_prefix, signatures=signatures)

    def own(self, key: str) -> str:
        """Return what an idempotency key of this caller is known by: no other's is the same.

        >>> FOG.own("k"), Caller("sensor", frozenset()).own("k")
        ('k', 'sensor\\nk')
        """
        # Neither a token's name nor a header can hold the separator.
        return key if self.name == FOG.name else f"{self.name}\n{key}"


FOG = Caller("of the fog", frozenset({"admin"}), signatures=None)
"""Who has the fog's one token; also anyone where no token is asked for, and the agent itself."""

_current: ContextVar[Caller] = ContextVar("caller", default=FOG)


def current_caller() -> Caller:
    """Return who made the request that this code runs for; outside of requests it is the fog."""
    return _current.get()


@contextmanager
def on_behalf_of(caller: Caller) -> Iterator[None]:
    """Let code run for a caller."""
    before = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(before)
