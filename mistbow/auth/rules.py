"""The access rule of each route, and its check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from mistbow.auth.callers import (
    REACH_HINT,
    SERVICES_ONLY,
    Caller,
    Scope,
    TokenScope,
    current_caller,
)
from mistbow.errors import ForbiddenError, MistbowError, OutOfReachError

F = TypeVar("F", bound=Callable[..., Any])

_RULE = "__mistbow_rule__"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The scope that a route requires of tokens.

    ``by_entity``: whether the route itself compares the entities in a request with the token's
    entity prefix. ``for_peers``: whether the route also admits agents of other sites. If such an
    agent may not read all data, the route itself compares the site of the data with the site of the
    agent (``Caller.check_site``). ``admits``: a further check of the caller by the request, also
    before the request is forwarded.
    """

    scope: Scope
    by_entity: bool
    for_peers: bool = False
    admits: Callable[[Request], None] | None = None

    @property
    def token_scope(self) -> TokenScope:
        """The scope that a token needs; ``services_only`` routes accept only the fog's token."""
        match self.scope:
            case "ingest" | "read" | "admin" as scope:
                return scope
        return "admin"

    @property
    def services_only(self) -> bool:
        """Whether the route is for the services of the fog only."""
        return self.scope in SERVICES_ONLY


def requires(
    scope: Scope,
    *,
    by_entity: bool = False,
    for_peers: bool = False,
    admits: Callable[[Request], None] | None = None,
) -> Callable[[F], F]:
    """Return a decorator that sets the access rule of a route.

    A route without a rule rejects all requests. ``by_entity``: True: the route itself compares
    entities with the entity prefix of ``current_caller()``. False: the route rejects tokens that
    have an entity prefix. ``for_peers``: the route also admits agents of other sites without this
    scope, and itself checks that they read only data of their site. ``admits``: raises
    ``ForbiddenError`` if the current caller may not send a request although it has the scope.
    """

    def mark(function: F) -> F:
        setattr(function, _RULE, AccessRule(scope, by_entity, for_peers, admits))
        return function

    return mark


def rule_of(route: Any) -> AccessRule | None:
    """Return the access rule of a route; None: the route has no rule."""
    rule: AccessRule | None = getattr(getattr(route, "endpoint", None), _RULE, None)
    return rule


async def authorize(request: Request) -> None:
    """Raise ``ForbiddenError`` if the caller's token does not satisfy the access rule of the route.

    A route without a rule rejects all requests.
    """
    rule = rule_of(request.scope["route"])
    what = f"{request.method} {request.scope['route'].path}"
    if rule is None:
        raise ForbiddenError(f"{what} has no access rule, so every request is rejected")
    check(rule, current_caller(), what)
    if rule.admits is not None:
        rule.admits(request)


def check(rule: AccessRule, caller: Caller, what: str) -> None:
    """Raise ``ForbiddenError``, or ``OutOfReachError`` for a service, if a caller may not use a
    route.

    ``what`` describes the route in the error.
    """
    if not (caller.has_scope(rule.scope) or (rule.for_peers and caller.is_peer)):
        raise _missing_scope(rule, caller, what)
    if caller.entity_prefix and not rule.by_entity:
        raise ForbiddenError(
            f"the token {caller.name} is for entities that begin with {caller.entity_prefix!r}, "
            f"but {what} is not limited to entities",
            hint="Use a token without an entity prefix.",
        )


def _missing_scope(rule: AccessRule, caller: Caller, what: str) -> MistbowError:
    if caller.home is not None:
        return OutOfReachError(
            f"{what} requires the scope {rule.scope}, which the {caller.name} of the site "
            f"{caller.home} does not have at the site {caller.site}",
            hint=REACH_HINT,
        )
    if rule.services_only:
        return ForbiddenError(
            f"{what} is for services of the fog only; the token {caller.name} is not the fog's",
            hint="Start the service with the fog's token (MISTBOW_TOKEN), or with an identity.",
        )
    has = ", ".join(sorted(caller.scopes))
    return ForbiddenError(
        f"{what} requires a token with the scope {rule.scope}; the token {caller.name} has {has}",
        hint="The operator of the fog creates tokens: mistbow token add",
    )
