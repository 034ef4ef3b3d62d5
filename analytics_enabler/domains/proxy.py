"""The proxy of requests to the enablers of other domains, and to the active enabler."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from urllib.parse import quote

import httpx
import msgspec
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from analytics.insight_models import DeploymentList, DeploymentStatus
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.domains.directory import DomainDirectory, KnownEnabler
from analytics_enabler.domains.enabler_clients import EnablerClients
from analytics_enabler.limits import MAX_RESULTS_WAIT_S
from analytics_enabler.semantics import Definition
from mistbow.auth.authentication import caller_headers
from mistbow.auth.callers import Caller, current_caller
from mistbow.client.answer_time import AnswerTime, send_within
from mistbow.client.bounded_answers import IN_PARTS, at_most
from mistbow.client.credentials import UnverifiedServiceError
from mistbow.errors import FencedError, NotFoundError, UnavailableError, from_answer
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.telemetry import get_logger
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
_LIST_S = 10.0
"""The total time (s) for an answer of another enabler about its deployments.

A timeout of each read alone does not end an answer that a stolen enabler sends byte by byte.
"""

_ORDER_S = 60.0
"""The total time (s) for the adoption or the deletion of a deployment by another enabler."""

_MAX_LIST_BYTES = 16 * 2**20
"""The maximum size of an answer of another enabler about its deployments."""

_TRANSIENT = frozenset({408, 421, 425, 429})
"""The statuses from 400 to 499 after which a repetition of the same request may succeed."""

_FOLLOW_TIMEOUT = httpx.Timeout(45.0, connect=2.0)


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
    ``own_url``: the address at which this enabler announces itself.
    """

    def __init__(self, directory: DomainDirectory, trust: TokenSettings, own_url: str = "") -> None:
        self.directory = directory
        self._own_url = own_url
        self.clients = EnablerClients(directory.others, trust)

    async def close(self) -> None:
        """Close all connections."""
        await self.clients.close()

    async def send(self, request: Request, to: KnownEnabler) -> Response:
        """Return the answer of another enabler to a request, such as a stream of results.

        Raises ``UnavailableError`` if the enabler does not answer.
        """
        return await self._send(request, to, {PROXIED_TO: to.enabler.domain})

    async def send_to_active(self, request: Request) -> Response:
        """Return the answer of the active enabler of this domain to a request to its standby.

        The active enabler proxies the request if it belongs to another domain. Raises
        ``UnavailableError`` if there is no active enabler, and ``FencedError`` if the active
        enabler of this site announces the address of this one.
        """
        domain = self.directory.domain
        active = self.directory.active(domain)
        is_here = active is not None and active == self.directory.successor()
        if active is not None and is_here and active.enabler.url == self._own_url:
            raise FencedError(
                f"another enabler of the domain {domain} has taken over this site, and announces "
                f"the address of this one: {self._own_url}",
                hint="Stop one of the two, or give each of them its own MISTBOW_ENABLER_URL.",
            )
        if active is None or _BY_STANDBY in request.headers:
            raise UnavailableError(
                f"this enabler is a standby of the domain {domain}, which has no active enabler",
                hint="Try again in some seconds: a standby takes over.",
            )
        marks = {_BY_STANDBY: domain}
        if is_proxied(request.headers):
            marks[PROXIED_TO] = domain
        return await self._send(request, active, marks)

    async def find(self, request: Request) -> Response:
        """Return the answer of the enabler that has the deployment of a request.

        Raises ``NotFoundError`` if no enabler has the deployment, and ``UnavailableError`` if an
        enabler that may have it does not answer.
        """
        deployment = request.path_params["deployment_id"]
        owner, silent = await self._find_owner(deployment)
        if owner is not None:
            return await self.send(request, owner)
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

    async def repeat(self, request: Request, deployment_id: str) -> None:
        """Proxy a repeated submission to the domain that has its deployment.

        Raises ``Proxied`` with the answer. Domains that do not answer are skipped: most submissions
        are no repetitions, and a region that is cut off accepts them.
        """
        owner = await self.owner(deployment_id)
        if owner is not None:
            raise Proxied(await self.send(request, owner))

    async def adopt(self, to: KnownEnabler, deployment: Deployment) -> None:
        """Submit a deployment of this enabler to another enabler under the same id.

        Raises ``EnablerRefusedError`` if that enabler refuses the deployment, and
        ``UnavailableError`` if it does not answer, or fails.
        """
        body = msgspec.json.encode(deployment)
        path = f"/api/insights/{quote(deployment.id, safe='')}/adopt"
        headers = {PROXIED_TO: to.enabler.domain, "Content-Type": "application/json"}
        try:
            answer = await self._read(to, "POST", path, headers, _ORDER_S, content=body)
        except httpx.HTTPError as error:
            raise UnavailableError(_silent(to, error)) from error
        _check(to, answer, "the deployment")

    async def has(self, to: KnownEnabler, deployment_id: str) -> bool | None:
        """Return whether another enabler has a deployment; None: it did not answer this."""
        path = f"/api/insights/{quote(deployment_id, safe='')}"
        headers = {**caller_headers(_RESUBMITTING), PROXIED_TO: to.enabler.domain}
        try:
            answer = await self._read(to, "GET", path, headers, _LIST_S)
        except httpx.HTTPError:
            return None
        if answer.status_code == NotFoundError.status:
            return False
        return True if answer.is_success else None

    async def owner(self, deployment_id: str) -> KnownEnabler | None:
        """Return the enabler of another domain that has a deployment; None: none that answers."""
        owner, _ = await self._find_owner(deployment_id)
        return owner

    async def delete(self, to: KnownEnabler, deployment_id: str) -> None:
        """Delete a deployment at another enabler, unless it is deleted there.

        Raises ``EnablerRefusedError`` if that enabler refuses the deletion, and
        ``UnavailableError`` if it does not answer, or fails.
        """
        path = f"/api/insights/{quote(deployment_id, safe='')}"
        # A person has deleted it at this enabler.
        headers = {**caller_headers(_RESUBMITTING), PROXIED_TO: to.enabler.domain}
        try:
            answer = await self._read(to, "DELETE", path, headers, _ORDER_S)
        except httpx.HTTPError as error:
            raise UnavailableError(_silent(to, error)) from error
        if answer.status_code != NotFoundError.status:
            _check(to, answer, "the deletion")

    async def _deployments_of(self, domain: str) -> list[DeploymentStatus] | None:
        enabler = self.directory.active(domain)
        if enabler is None:
            return None
        headers = {**caller_headers(current_caller()), PROXIED_TO: domain}
        try:
            answer = await self._read(enabler, "GET", "/api/insights", headers, _LIST_S)
            answer.raise_for_status()
            return DeploymentList.model_validate_json(answer.content).deployments
        except (httpx.HTTPError, ValueError) as error:
            log.info("domain_not_listed", domain=domain, reason=str(error) or type(error).__name__)
            return None

    async def _find_owner(self, deployment_id: str) -> tuple[KnownEnabler | None, list[str]]:
        """Return (the enabler of another domain that has a deployment, the silent domains).

        All domains are asked at the same time, so all silent domains cost only one timeout.
        """
        domains = self.directory.other_domains()
        enablers = [self.directory.active(domain) for domain in domains]
        asked = [
            None if each is None else asyncio.create_task(self.has(each, deployment_id))
            for each in enablers
        ]
        silent: list[str] = []
        try:
            for domain, enabler, task in zip(domains, enablers, asked, strict=True):
                has = None if task is None else await task
                if has:
                    return enabler, silent
                if has is None:
                    silent.append(domain)
        finally:
            await cancel_and_wait([task for task in asked if task is not None])
        return None, silent

    async def _read(
        self,
        to: KnownEnabler,
        method: str,
        path: str,
        headers: Mapping[str, str],
        seconds: float,
        content: bytes | None = None,
    ) -> httpx.Response:
        """Return the whole answer of another enabler; ``seconds``: its total time.

        Raises ``httpx.HTTPError`` if the enabler does not answer in time.
        """
        try:
            with self.clients.using(to) as client:
                async with asyncio.timeout(seconds):
                    return await client.request(
                        method,
                        path,
                        content=content,
                        headers=headers,
                        timeout=_LIST_TIMEOUT if method == "GET" else _TIMEOUT,
                        extensions=at_most(_MAX_LIST_BYTES),
                    )
        except TimeoutError as error:
            raise httpx.ReadTimeout("it answers too slowly") from error

    async def _send(self, request: Request, to: KnownEnabler, marks: Mapping[str, str]) -> Response:
        """Return the answer to a request; ``marks``: the headers of a proxied request."""
        body = await request.body()
        async with AsyncExitStack() as stack:
            client = stack.enter_context(self.clients.using(to))
            answer = await self._answer(client, request, body, to, marks)
            stack.push_async_callback(answer.aclose)
            proxied = _ProxiedAnswer(answer)
            proxied.end = stack.pop_all()
            return proxied

    async def _answer(
        self,
        client: httpx.AsyncClient,
        request: Request,
        body: bytes,
        to: KnownEnabler,
        marks: Mapping[str, str],
    ) -> httpx.Response:
        """Return the answer of another enabler, whose body is not read yet."""
        headers = {name: value for name, value in request.headers.items() if name in _HEADERS}
        is_feed = request.url.path.endswith(("/follow", "/events"))
        is_read = request.url.path.endswith("/results")
        timeout = _FOLLOW_TIMEOUT if is_feed else _RESULTS_TIMEOUT if is_read else _TIMEOUT
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
            content=body,
            timeout=timeout,
        )
        time = AnswerTime(
            f"the enabler of the domain {to.enabler.domain} at {to.enabler.url}",
            _headers_s(timeout),
            timeout.read or 0.0,
            math.inf,
            size=len(body),
        )
        try:
            if is_feed:
                return await time.wait(client.send(sent, stream=True))
            return await send_within(time, client, sent)
        except (httpx.ConnectError, httpx.ConnectTimeout, UnverifiedServiceError) as error:
            raise EnablerUnreachableError(_silent(to, error), hint="Try again later.") from error
        except httpx.HTTPError as error:
            raise UnavailableError(_silent(to, error), hint="Try again later.") from error


def _headers_s(timeout: httpx.Timeout) -> float:
    """Return the total time (s) until the headers of the answer to a request without a body."""
    return (timeout.connect or 0.0) + (timeout.read or 0.0) + _LIST_S


class _ProxiedAnswer(StreamingResponse):
    """The answer of another enabler; ``end``: closed when it was passed on, or has failed."""

    def __init__(self, answer: httpx.Response) -> None:
        headers = {name: answer.headers[name] for name in _ANSWER_HEADERS if name in answer.headers}
        super().__init__(answer.aiter_raw(), answer.status_code, headers)
        self.end = AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.end.aclose()


def is_proxied(headers: Mapping[str, str]) -> bool:
    """Return whether another enabler has proxied a request."""
    return PROXIED_TO in headers


def _check(to: KnownEnabler, answer: httpx.Response, what: str) -> None:
    """Raise the error of an unsuccessful answer to the request ``what``."""
    if answer.is_success:
        return
    error = from_answer(answer.status_code, answer.content)
    enabler = f"the enabler of the domain {to.enabler.domain} at {to.enabler.url}"
    why = f"{enabler} refuses {what} ({answer.status_code}): {error.message}"
    is_permanent = answer.is_client_error and answer.status_code not in _TRANSIENT
    if is_permanent and error.code != FencedError.code:
        raise EnablerRefusedError(why)
    raise UnavailableError(why)


def _silent(to: KnownEnabler, error: Exception) -> str:
    return (
        f"the enabler of the domain {to.enabler.domain} at {to.enabler.url} does not answer: "
        f"{str(error) or type(error).__name__}"
    )
