"""Dependencies of routes that proxy requests to other enablers."""

from collections.abc import Awaitable, Callable

from fastapi import Request

from analytics_enabler.deployments.service import Deployments
from analytics_enabler.domains.proxy import DomainProxy, Proxied, is_proxied
from analytics_enabler.domains.role import RoleCell


def proxied_to_owner(
    deployments: Deployments, proxy: DomainProxy
) -> Callable[[Request, str], Awaitable[None]]:
    """Return a dependency that proxies requests for deployments of other domains."""

    async def proxy_request(request: Request, deployment_id: str) -> None:
        is_known = not deployments.is_loaded or deployments.has(deployment_id)
        if not is_known and not is_proxied(request.headers):
            raise Proxied(await proxy.find(request))

    return proxy_request


def proxied_by_standby(role: RoleCell, proxy: DomainProxy) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that proxies the requests to a standby to the active enabler."""

    async def proxy_request(request: Request) -> None:
        if role.is_standby:
            raise Proxied(await proxy.send_to_active(request))

    return proxy_request
