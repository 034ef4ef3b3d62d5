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
    """A token's name and rights; with a prefix only over entities that begin with it."""

    name: str
    scopes: frozenset[Scope]
    entity_prefix: str = ""

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

    def narrowed(self, entity_prefix: str) -> "Caller":
        """Return this caller with a prefix of another, on whose behalf it asks."""
        return replace(self, entity_prefix=entity_prefix)


FOG = Caller("of the fog", frozenset({"admin"}))
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
