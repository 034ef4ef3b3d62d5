"""The proxy of queries to the storage agent of this site, with the rights of their callers."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import httpx
from fastapi import Response

from mistbow.auth.authentication import caller_headers
from mistbow.auth.callers import current_caller
from mistbow.client.answer_time import AnswerTime, read_within
from mistbow.client.credentials import ServiceCredentials
from mistbow.client.service_client import async_service_client
from mistbow.errors import UnavailableError
from mistbow.tls import client_context
from mistbow.trust_settings import TokenSettings

_ANSWER_S = 60.0
_TIMEOUT = httpx.Timeout(_ANSWER_S, connect=2.0)
_TOTAL_S = _ANSWER_S + 5.0
"""The time (s) until the headers of an answer, with the connection and the proof of an identity."""

_LIMITS = httpx.Limits(max_connections=50, max_keepalive_connections=10)


class AgentProxy:
    """Sends queries to the storage agent; the agent checks entities and signatures.

    The scope of the caller was checked already.
    """

    def __init__(self, url: str, trust: TokenSettings) -> None:
        self._url = url
        credentials = ServiceCredentials(url, trust.proof or "", kind="agent")
        tls = client_context(trust.client_tls)
        self._client = async_service_client(url, credentials, tls, _LIMITS, timeout=_TIMEOUT)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def post(
        self,
        path: str,
        *,
        site: str | None,
        json: Any = None,
        form: Mapping[str, Any] | None = None,
    ) -> Response:
        """Return the answer of the agent to a body of JSON, or to a form, whatever its status.

        ``site``: the site whose agent answers; None: the agent of this site.
        """
        headers = {**caller_headers(current_caller()), "Accept": "application/json"}
        params = {} if site is None else {"site": site}
        content = None
        if form is not None:
            content = urlencode(form, doseq=True).encode()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        return await self._send("POST", path, params=params, headers=headers, json=json,
                                content=content)  # fmt: skip

    async def get(self, path: str, *, site: str | None, params: Mapping[str, Any]) -> Response:
        """Return the answer of the agent, whatever its status."""
        headers = caller_headers(current_caller())
        where = {} if site is None else {"site": site}
        return await self._send("GET", path, params={**params, **where}, headers=headers)

    async def _send(self, method: str, path: str, **arguments: Any) -> Response:
        request = self._client.build_request(method, path, **arguments)
        name, size = f"the storage agent {self._url}", len(request.content)
        time = AnswerTime(name, _TOTAL_S, _ANSWER_S, size=size)
        try:
            answer = await read_within(time, self._client, request)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise UnavailableError(
                f"the storage agent {self._url} does not answer: {reason}", hint="Try again later."
            ) from error
        kind = answer.headers.get("content-type", "application/json")
        return Response(answer.content, answer.status_code, media_type=kind)
