"""Requests for deployments of other domains."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.forwarding import Forwarder, PassedOn, is_passed_on
from analytics_enabler.domains.role import DomainRole, RoleState


def answered_elsewhere(
    deployments: Deployments, forwarder: Forwarder
) -> Callable[[Request, str], Awaitable[None]]:
    """Return a dependency of routes that passes on requests for deployments of other domains."""

    async def pass_on(request: Request, deployment_id: str) -> None:
        is_known = not deployments.is_loaded or deployments.has(deployment_id)
        if not is_known and not is_passed_on(request.headers):
            raise PassedOn(await forwarder.find(request))

    return pass_on


def answered_by_active(
    role: DomainRole, forwarder: Forwarder
) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that passes the requests to a standby on to the active enabler."""

    async def pass_on(request: Request) -> None:
        if role.state is RoleState.STANDBY:
            raise PassedOn(await forwarder.send_to_active(request))

    return pass_on
