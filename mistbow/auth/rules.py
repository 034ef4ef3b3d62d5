"""What each route requires of its caller, and the check of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from mistbow.auth.callers import Caller, Scope, current_caller
from mistbow.errors import ForbiddenError

F = TypeVar("F", bound=Callable[..., Any])

_RULE = "__mistbow_rule__"


@dataclass(frozen=True, slots=True)
class Rule:
    """The scope that opens a route; ``by_entity``: it keeps a token to its entity prefix."""

    scope: Scope
    by_entity: bool


def requires(scope: Scope, *, by_entity: bool = False) -> Callable[[F], F]:
    """Mark a route's function with what it requires; one without a mark opens to nobody.

    ``by_entity`` is for those that ask ``current_caller()`` whose points may be touched; all
    others are closed to tokens that are limited to a prefix.
    """

    def mark(function: F) -> F:
        setattr(function, _RULE, Rule(scope, by_entity))
        return function

    return mark


def rule_of(route: Any) -> Rule | None:
    """Return what a route requires, or None if it does not say."""
    rule: Rule | None = getattr(getattr(route, "endpoint", None), _RULE, None)
    return rule


async def authorize(request: Request) -> None:
    """Refuse a caller whose token does not open the route; raises ``ForbiddenError``."""
    rule = rule_of(request.scope["route"])
    if rule is None:
        raise ForbiddenError("this route says not what it requires, so it opens to nobody")
    check(rule, current_caller())


def check(rule: Rule, caller: Caller) -> None:
    """Refuse a caller whose token is not what a rule requires; raises ``ForbiddenError``."""
    if not caller.may(rule.scope):
        has = ", ".join(sorted(caller.scopes))
        raise ForbiddenError(
            f"this takes a token with the scope {rule.scope}; the token {caller.name} has {has}",
            hint="Whoever runs the fog makes tokens by mistbow token add.",
        )
    if caller.entity_prefix and not rule.by_entity:
        raise ForbiddenError(
            f"the token {caller.name} is for entities that begin with {caller.entity_prefix!r}, "
            "and this is not about entities",
            hint="Use a token without an entity prefix.",
        )
