"""The proxy of requests to the enablers of other domains, and to the active enabler."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import quote

import httpx
import msgspec
from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from analytics.insight_models import DeploymentList, DeploymentStatus
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.limits import MAX_RESULTS_WAIT_S
from analytics_enabler.semantics import Definition
from mistbow.auth.authentication import caller_headers
from mistbow.auth.callers import Caller, current_caller
from mistbow.client.bounded_answers import IN_PARTS
from mistbow.client.connections import async_transport
from mistbow.client.credentials import ServiceCredentials, UnverifiedServiceError
from mistbow.errors import FencedError, NotFoundError, UnavailableError
from mistbow.telemetry import get_logger
from mistbow.tls import client_context
from mistbow.trust_settings import TokenSettings

log = get_logger(__name__)

PROXIED_TO = "Mistbow-Domain"
"""The header of a proxied request: the domain whose enabler should answer it."""

_BY_STANDBY = "Mistbow-Standby"
"""The header of a request that a standby proxied to the active enabler of its domain."""

_HEADERS = ("accept", "content-type", "idempotency-key", "if-match", "last-event-id")
_ANSWER_HEADERS = (
    *("content-type", "cache-control", "etag"),
    *("content-disposition", "mistbow-missing-sites"),
)
_TIMEOUT = httpx.Timeout(30.0, connect=2.0)
_RESULTS_TIMEOUT = httpx.Timeout(30.0 + MAX_RESULTS_WAIT_S, connect=2.0)
_LIST_TIMEOUT = httpx.Timeout(3.0, connect=1.0)
_TRANSIENT = frozenset({408, 421, 425, 429})
"""The statuses from 400 to 499 after which a repetition of the same request may succeed."""

_FOLLOW_TIMEOUT = httpx.Timeout(45.0, connect=2.0)
_LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=20)


class Proxied(Exception):  # noqa: N818 - not an error: it ends a request with another's answer
    """Ends the handling of a request with the answer of another enabler."""

    def __init__(self, response: Response) -> None:
        super().__init__("the request was proxied")
        self.response = response


class EnablerUnreachableError(UnavailableError):
    """Another enabler is unreachable, and has received nothing of a request."""


class EnablerRefusedError(UnavailableError):
    """Another enabler has refused a request, and refuses each repetition of it."""


_RESUBMITTING = Caller("of a standby", frozenset(), signatures=None)
"""The caller of deletions that a standby has accepted, and sends to the active enabler."""


class DomainProxy:
    """Sends requests to other enablers with the rights of their callers.

    The scope of the caller was checked already. A request is proxied to at most one domain.
    """

    def __init__(self, directory: DomainDirectory, trust: TokenSettings) -> None:
        self.directory = directory
        self._proof = trust.proof or ""
        self._tls = client_context(trust.client_tls)
        self._clients: dict[tuple[str, str], httpx.AsyncClient] = {}

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    async def send(self, request: Request, to: KnownEnabler) -> Response:
        """Return the answer of another enabler to a request, such as a stream of results.

        Raises ``UnavailableError`` if the enabler does not answer.
        """
        return _response(await self._send(request, to, {PROXIED_TO: to.enabler.domain}))

    async def send_to_active(self, request: Request) -> Response:
        """Return the answer of the active enabler of this domain to a request to its standby.

        The active enabler proxies the request if it belongs to another domain. Raises
        ``UnavailableError`` if there is no active enabler.
        """
        domain = self.directory.domain
        active = self.directory.active(domain)
        if active is None or _BY_STANDBY in request.headers:
            raise UnavailableError(
                f"this enabler is a standby of the domain {domain}, and no enabler rules it now",
                hint="Try again in some seconds: a standby takes over.",
            )
        marks = {_BY_STANDBY: domain}
        if is_proxied(request.headers):
            marks[PROXIED_TO] = domain
        return _response(await self._send(request, active, marks))

    async def find(self, request: Request) -> Response:
        """Return the answer of the enabler that has the deployment of a request.

        Raises ``NotFoundError`` if no enabler has the deployment, and ``UnavailableError`` if an
        enabler that may have it does not answer.
        """
        silent: list[str] = []
        for domain in self.directory.other_domains():
            enabler = self.directory.active(domain)
            try:
                if enabler is None:
                    raise UnavailableError(f"the domain {domain} has no reachable enabler")
                answer = await self._send(request, enabler, {PROXIED_TO: domain})
            except UnavailableError:
                silent.append(domain)
                continue
            if answer.status_code != NotFoundError.status:
                return _response(answer)
            await answer.aclose()
        deployment = request.path_params["deployment_id"]
        if silent:
            raise UnavailableError(
                f"there is no deployment {deployment} in the domains that answer, and these do not "
                f"answer: {', '.join(silent)}",
                hint="Try again later.",
            )
        raise NotFoundError(
            f"there is no deployment {deployment}", hint="GET /api/insights lists the deployments."
        )

    async def deployments(self) -> tuple[list[DeploymentStatus], list[str]]:
        """Return the deployments of all other domains, and the domains that do not answer."""
        domains = self.directory.other_domains()
        answers = await asyncio.gather(*map(self._deployments_of, domains))
        found = [each for answer in answers for each in answer or ()]
        return found, [name for name, each in zip(domains, answers, strict=True) if each is None]

    async def submit(self, request: Request, definitions: Sequence[Definition]) -> None:
        """Proxy a text to the smallest domain that has all sources, unless it is this domain.

        If the enabler of the smallest domain is unreachable, the next larger domain takes its
        place. Raises ``Proxied`` with the answer, and ``UnavailableError`` if no domain with all
        sources is reachable.
        """
        owners = self.directory.owners(definitions)
        for domain in owners:
            if domain == self.directory.domain:
                return
            enabler = self.directory.active(domain)
            if enabler is None:
                continue
            try:
                raise Proxied(await self.send(request, enabler))
            except EnablerUnreachableError:
                continue
        raise UnavailableError(
            f"these insights read sites outside the domain {self.directory.domain}, and no enabler "
            f"of a domain that has all of their sites is reachable: {', '.join(owners)}",
            hint="Try again later, or name only sites of this domain (WHEN site IN ('a', 'b')).",
        )

    async def adopt(self, to: KnownEnabler, deployment: Deployment) -> None:
        """Submit a deployment of this enabler to another enabler under the same id.

        Raises ``EnablerRefusedError`` if that enabler refuses the deployment, and
        ``UnavailableError`` if it does not answer, or fails.
        """
        body = msgspec.json.encode(deployment)
        path = f"/api/insights/{quote(deployment.id, safe='')}/adopt"
        headers = {PROXIED_TO: to.enabler.domain, "Content-Type": "application/json"}
        client = self._client(to)
        try:
            answer = await client.post(path, content=body, headers=headers, timeout=_TIMEOUT)
        except httpx.HTTPError as error:
            raise UnavailableError(_silent(to, error)) from error
        _check(to, answer, "the deployment")

    async def has(self, to: KnownEnabler, deployment_id: str) -> bool | None:
        """Return whether another enabler has a deployment; None: it did not answer this."""
        path = f"/api/insights/{quote(deployment_id, safe='')}"
        headers = {**caller_headers(_RESUBMITTING), PROXIED_TO: to.enabler.domain}
        try:
            answer = await self._client(to).get(path, headers=headers, timeout=_LIST_TIMEOUT)
        except httpx.HTTPError:
            return None
        if answer.status_code == NotFoundError.status:
            return False
        return True if answer.is_success else None

    async def delete(self, to: KnownEnabler, deployment_id: str) -> None:
        """Delete a deployment at another enabler, unless it is deleted there.

        Raises ``EnablerRefusedError`` if that enabler refuses the deletion, and
        ``UnavailableError`` if it does not answer, or fails.
        """
        path = f"/api/insights/{quote(deployment_id, safe='')}"
        # A person has deleted it at this enabler.
        headers = {**caller_headers(_RESUBMITTING), PROXIED_TO: to.enabler.domain}
        try:
            answer = await self._client(to).delete(path, headers=headers, timeout=_TIMEOUT)
        except httpx.HTTPError as error:
            raise UnavailableError(_silent(to, error)) from error
        if answer.status_code != NotFoundError.status:
            _check(to, answer, "the deletion")

    async def _deployments_of(self, domain: str) -> list[DeploymentStatus] | None:
        enabler = self.directory.active(domain)
        if enabler is None:
            return None
        client = self._client(enabler)
        headers = {**caller_headers(current_caller()), PROXIED_TO: domain}
        try:
            answer = await client.get("/api/insights", headers=headers, timeout=_LIST_TIMEOUT)
            answer.raise_for_status()
            return DeploymentList.model_validate_json(answer.content).deployments
        except (httpx.HTTPError, ValueError) as error:
            log.info("domain_not_listed", domain=domain, reason=str(error) or type(error).__name__)
            return None

    async def _send(
        self, request: Request, to: KnownEnabler, marks: Mapping[str, str]
    ) -> httpx.Response:
        """Send a request to another enabler; ``marks``: the headers of a proxied request."""
        client = self._client(to)
        headers = {name: value for name, value in request.headers.items() if name in _HEADERS}
        is_feed = request.url.path.endswith("/follow")
        is_read = request.url.path.endswith("/results")
        sent = client.build_request(
            request.method,
            request.url.path,
            params=request.url.query,
            headers={
                **headers,
                **caller_headers(current_caller()),
                **marks,
                "Accept-Encoding": "identity",
            },
            extensions=IN_PARTS,
            content=await request.body(),
            timeout=_FOLLOW_TIMEOUT if is_feed else _RESULTS_TIMEOUT if is_read else _TIMEOUT,
        )
        try:
            return await client.send(sent, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, UnverifiedServiceError) as error:
            raise EnablerUnreachableError(_silent(to, error), hint="Try again later.") from error
        except httpx.HTTPError as error:
            raise UnavailableError(_silent(to, error), hint="Try again later.") from error

    def _client(self, to: KnownEnabler) -> httpx.AsyncClient:
        """Return the client for an enabler, which must be of the site that announces it."""
        key, url = (to.site, to.enabler.url), to.enabler.url
        if key not in self._clients:
            self._clients[key] = httpx.AsyncClient(
                base_url=url,
                auth=ServiceCredentials(url, self._proof, kind="enabler", site=to.site),
                transport=async_transport(self._tls, _LIMITS),
                trust_env=False,
            )
        return self._clients[key]


def _response(answer: httpx.Response) -> Response:
    headers = {name: answer.headers[name] for name in _ANSWER_HEADERS if name in answer.headers}
    return StreamingResponse(_body(answer), answer.status_code, headers)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


def is_proxied(headers: Mapping[str, str]) -> bool:
    """Return whether another enabler has proxied a request."""
    return PROXIED_TO in headers


def _check(to: KnownEnabler, answer: httpx.Response, what: str) -> None:
    """Raise the error of an unsuccessful answer to the request ``what``."""
    if answer.is_success:
        return
    code, message = _error_of(answer)
    enabler = f"the enabler of the domain {to.enabler.domain} at {to.enabler.url}"
    why = f"{enabler} refuses {what} ({answer.status_code}): {message}"
    is_permanent = answer.is_client_error and answer.status_code not in _TRANSIENT
    if is_permanent and code != FencedError.code:
        raise EnablerRefusedError(why)
    raise UnavailableError(why)


def _error_of(answer: httpx.Response) -> tuple[str, str]:
    """Return the code and the message of an error that an enabler answers."""
    try:
        error = answer.json()["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return "", answer.reason_phrase or "no reason"


def _silent(to: KnownEnabler, error: Exception) -> str:
    return (
        f"the enabler of the domain {to.enabler.domain} at {to.enabler.url} does not answer: "
        f"{str(error) or type(error).__name__}"
    )
