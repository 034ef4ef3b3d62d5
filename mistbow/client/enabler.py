"""The client of the analytics enabler: deploying insights, reading and following their results."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, ServerSentEvent
from pydantic import BaseModel

from mistbow.client.transport import AsyncTransport, Call, Transport
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.insights import (
    Accepted,
    CheckAnswer,
    DeploymentList,
    DeploymentStatus,
    Explanation,
    Result,
    Results,
    Submission,
)

Model = TypeVar("Model", bound=BaseModel)

_ROOT = "/api/insights"
_RECONNECT_S = 1.0
_SILENCE_S = 45.0  # three of the enabler's pings


def _call(method: str, path: str, model: type[Model], **arguments: Any) -> Call[Model]:
    def parse(response: httpx.Response) -> Model:
        return model.model_validate_json(response.content)

    return Call(method, path, parse, **arguments)


def _path(deployment_id: str) -> str:
    return f"{_ROOT}/{quote(deployment_id, safe='')}"


def _body(queries: str, name: str | None = None) -> dict[str, Any]:
    return Submission.model_construct(queries=queries, name=name).model_dump(exclude_none=True)


def submit(queries: str, name: str | None, key: str | None) -> Call[Accepted]:
    """Ask to deploy insights, once however often it is asked with the same key."""
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    body = _body(queries, name)
    return _call("POST", _ROOT, Accepted, json=body, headers=headers, repeatable=True)


def amend(deployment_id: str, queries: str, name: str | None) -> Call[Accepted]:
    """Ask to replace the insights of a deployment."""
    body = _body(queries, name)
    return _call("PUT", _path(deployment_id), Accepted, json=body, repeatable=True)


def check(queries: str) -> Call[CheckAnswer]:
    """Ask what is wrong with a text."""
    return _call("POST", f"{_ROOT}/check", CheckAnswer, json=_body(queries), repeatable=True)


def explain(queries: str) -> Call[Explanation]:
    """Ask what a text becomes."""
    return _call("POST", f"{_ROOT}/explain", Explanation, json=_body(queries), repeatable=True)


def explain_text(queries: str) -> Call[str]:
    """Ask what a text becomes, for reading."""
    return Call(
        "POST",
        f"{_ROOT}/explain",
        lambda response: response.text,
        params={"format": "text"},
        json=_body(queries),
        repeatable=True,
    )


def list_all() -> Call[DeploymentList]:
    """Ask for every deployment."""
    return _call("GET", _ROOT, DeploymentList, repeatable=True)


def show(deployment_id: str) -> Call[DeploymentStatus]:
    """Ask for one deployment."""
    return _call("GET", _path(deployment_id), DeploymentStatus, repeatable=True)


def delete(deployment_id: str) -> Call[None]:
    """Ask to stop a deployment; not repeated, for the second answer would be 'not found'."""
    return Call("DELETE", _path(deployment_id), lambda _: None)


def results(
    deployment_id: str,
    insight: str | None,
    start: int | None,
    end: int | None,
    limit: int | None,
) -> Call[Results]:
    """Ask for the latest results."""
    given = {"insight": insight, "from": start, "to": end, "limit": limit}
    params = {name: value for name, value in given.items() if value is not None}
    path = f"{_path(deployment_id)}/results"
    return _call("GET", path, Results, params=params, repeatable=True)


def follow(deployment_id: str, insight: str | None, last_event_id: str | None) -> Call[None]:
    """Ask for the results to come, as server-sent events."""
    headers = {"Accept": "text/event-stream"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    params = {} if insight is None else {"insight": insight}
    path = f"{_path(deployment_id)}/results/follow"
    return Call("GET", path, lambda _: None, params=params, headers=headers)


def _result(event: ServerSentEvent) -> Result | None:
    return Result.model_validate_json(event.data) if event.event == "result" else None


class EnablerClient:
    """An analytics enabler, by HTTP; every call raises ``MistbowError`` when it fails."""

    def __init__(self, url: str, *, token: str | None = None, ca: Path | str | None = None) -> None:
        self._transport = Transport(url, token=token, ca=ca)

    def submit(
        self, queries: str, *, name: str | None = None, idempotency_key: str | None = None
    ) -> Accepted:
        """Deploy insights; raises ``InvalidQueryError`` whose details list all problems.

        Safe to repeat with the same key.
        """
        return self._transport.send(submit(queries, name, idempotency_key))

    def amend(self, deployment_id: str, queries: str, *, name: str | None = None) -> Accepted:
        """Replace the insights of a deployment; those that mean the same go on undisturbed."""
        return self._transport.send(amend(deployment_id, queries, name))

    def check(self, queries: str) -> CheckAnswer:
        """Return all that is wrong with a text."""
        return self._transport.send(check(queries))

    def explain(self, queries: str) -> Explanation:
        """Return what a text becomes, and what of it runs already."""
        return self._transport.send(explain(queries))

    def explain_text(self, queries: str) -> str:
        """Return the same for reading."""
        return self._transport.send(explain_text(queries))

    def list(self) -> list[DeploymentStatus]:
        """Return every deployment, the oldest first."""
        return self._transport.send(list_all()).deployments

    def show(self, deployment_id: str) -> DeploymentStatus:
        """Return one deployment; raises ``NotFoundError`` for an unknown id."""
        return self._transport.send(show(deployment_id))

    def delete(self, deployment_id: str) -> None:
        """Stop a deployment and forget it."""
        self._transport.send(delete(deployment_id))

    def results(
        self,
        deployment_id: str,
        *,
        insight: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int | None = None,
    ) -> Results:
        """Return the latest results that stand, by time; ``start`` and ``end`` in ms."""
        return self._transport.send(results(deployment_id, insight, start, end, limit))

    def follow(
        self, deployment_id: str, *, insight: str | None = None, after: str | None = None
    ) -> Iterator[Result]:
        """Yield results as they come, also across restarts of the enabler.

        ``after``: the ``next`` of earlier results, to miss none since; else those from now on.
        Ends when the deployment is deleted; raises ``MistbowError`` if it never existed.
        """
        last_event_id = after
        connected = False
        while True:
            call = follow(deployment_id, insight, last_event_id)
            try:
                with self._transport.stream(call, read_timeout=_SILENCE_S) as response:
                    connected = True
                    for event in EventSource(response).iter_sse():
                        last_event_id = event.id or last_event_id
                        if (result := _result(event)) is not None:
                            yield result
            except NotFoundError:
                if connected:
                    return
                raise
            except UnavailableError:
                if not connected:
                    raise
            time.sleep(_RECONNECT_S)

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


class AsyncEnablerClient:
    """Does as ``EnablerClient``, from coroutines."""

    def __init__(self, url: str, *, token: str | None = None, ca: Path | str | None = None) -> None:
        self._transport = AsyncTransport(url, token=token, ca=ca)

    async def submit(
        self, queries: str, *, name: str | None = None, idempotency_key: str | None = None
    ) -> Accepted:
        """Do as ``EnablerClient.submit``."""
        return await self._transport.send(submit(queries, name, idempotency_key))

    async def amend(self, deployment_id: str, queries: str, *, name: str | None = None) -> Accepted:
        """Do as ``EnablerClient.amend``."""
        return await self._transport.send(amend(deployment_id, queries, name))

    async def check(self, queries: str) -> CheckAnswer:
        """Do as ``EnablerClient.check``."""
        return await self._transport.send(check(queries))

    async def explain(self, queries: str) -> Explanation:
        """Do as ``EnablerClient.explain``."""
        return await self._transport.send(explain(queries))

    async def explain_text(self, queries: str) -> str:
        """Do as ``EnablerClient.explain_text``."""
        return await self._transport.send(explain_text(queries))

    async def list(self) -> list[DeploymentStatus]:
        """Do as ``EnablerClient.list``."""
        return (await self._transport.send(list_all())).deployments

    async def show(self, deployment_id: str) -> DeploymentStatus:
        """Do as ``EnablerClient.show``."""
        return await self._transport.send(show(deployment_id))

    async def delete(self, deployment_id: str) -> None:
        """Do as ``EnablerClient.delete``."""
        await self._transport.send(delete(deployment_id))

    async def results(
        self,
        deployment_id: str,
        *,
        insight: str | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int | None = None,
    ) -> Results:
        """Do as ``EnablerClient.results``."""
        return await self._transport.send(results(deployment_id, insight, start, end, limit))

    async def follow(
        self, deployment_id: str, *, insight: str | None = None, after: str | None = None
    ) -> AsyncIterator[Result]:
        """Do as ``EnablerClient.follow``."""
        last_event_id = after
        connected = False
        while True:
            call = follow(deployment_id, insight, last_event_id)
            try:
                async with self._transport.stream(call, read_timeout=_SILENCE_S) as response:
                    connected = True
                    async for event in EventSource(response).aiter_sse():
                        last_event_id = event.id or last_event_id
                        if (result := _result(event)) is not None:
                            yield result
            except NotFoundError:
                if connected:
                    return
                raise
            except UnavailableError:
                if not connected:
                    raise
            await asyncio.sleep(_RECONNECT_S)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()
