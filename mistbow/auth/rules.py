"""The access rule of each route, and its check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from mistbow.auth.callers import FOG, Caller, Scope, current_caller
from mistbow.errors import ForbiddenError

F = TypeVar("F", bound=Callable[..., Any])

_RULE = "__mistbow_rule__"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The scope that a route requires of tokens.

    ``by_entity``: whether the route itself compares the entities in a request with the token's
    entity prefix. ``services_only``: whether the route is for the services of the fog only.
    """

    scope: Scope
    by_entity: bool
    services_only: bool = False


def requires(
    scope: Scope, *, by_entity: bool = False, services_only: bool = False
) -> Callable[[F], F]:
    """Return a decorator that sets the access rule of a route.

    A route without a rule rejects all requests. ``by_entity``: True: the route itself compares
    entities with the entity prefix of ``current_caller()``. False: the route rejects tokens that
    have an entity prefix. ``services_only``: the route also rejects all tokens but the fog's own,
    since services act on what the request names.
    """

    def mark(function: F) -> F:
        setattr(function, _RULE, AccessRule(scope, by_entity, services_only))
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


def check(rule: AccessRule, caller: Caller, what: str) -> None:
    """Raise ``ForbiddenError`` if a caller's token does not satisfy a rule.

    ``what`` describes the route in the error.
    """
    if not caller.has_scope(rule.scope):
        has = ", ".join(sorted(caller.scopes))
        raise ForbiddenError(
            f"{what} requires a token with the scope {rule.scope}; the token {caller.name} has "
            f"{has}",
            hint="The operator of the fog creates tokens: mistbow token add",
        )
    if rule.services_only and caller.name != FOG.name:
        raise ForbiddenError(
            f"{what} is for services of the fog only; the token {caller.name} is not the fog's",
            hint="Start the service with the fog's token (MISTBOW_TOKEN).",
        )
    if caller.entity_prefix and not rule.by_entity:
        raise ForbiddenError(
            f"the token {caller.name} is for entities that begin with {caller.entity_prefix!r}, "
            f"but {what} is not limited to entities",
            hint="Use a token without an entity prefix.",
        )
