"""The enabler's answers are as its OpenAPI document declares."""

import re
from collections.abc import Iterator
from typing import Any

import httpx

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from tests.support.openapi import check_declared

_TEXT = """
a = COMPUTE AVG(x, 10 s) BY node EVERY 5 s WITH SALIENCE 3;
b = COMPUTE TOP_K[2](x, 10 s) EVERY 5 s;
c = COMPUTE INSIGHT a + 1 BY node EVERY 5 s;
"""


def requests(deployment: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (method, path, JSON body) of valid and of invalid requests."""
    for path in ("", "/check", "/explain", "/explain?format=text"):
        for text in (_TEXT, "COMPUTE", "a = COMPUTE AVG(unknown, 10 s) BY colour EVERY 5 s"):
            yield "POST", f"/api/insights{path}", {"queries": text}
    yield "POST", "/api/insights", {"no": "queries"}
    yield "GET", "/api/insights", None
    for name in (deployment, "d-none"):
        yield "GET", f"/api/insights/{name}", None
        yield "GET", f"/api/insights/{name}/results", None
        yield "GET", f"/api/insights/{name}/results?insight=none", None
        yield "GET", f"/api/insights/{name}/results?from=1795262400", None
        yield (
            "PUT",
            f"/api/insights/{name}",
            {"queries": f"{_TEXT}d = COMPUTE MAX(x, 10 s) EVERY 5 s"},
        )
        yield "POST", f"/api/insights/{name}/pause", None
        yield "GET", f"/api/insights/{name}", None
        yield "POST", f"/api/insights/{name}/resume", None
        yield "GET", f"/api/insights/{name}/decisions", None
        yield "GET", f"/api/decisions?insight={name}/a", None
        yield "DELETE", f"/api/insights/{name}", None
    yield "GET", "/api/decisions?limit=1", None
    yield "GET", "/api/decisions?limit=0", None
    for path in ("/healthz", "/readyz", "/metrics"):
        yield "GET", path, None


def check_answer(document: dict[str, Any], answer: httpx.Response) -> None:
    """Fail unless the document declares the status, the media type and the body of an answer."""
    path, method = answer.request.url.path, answer.request.method.lower()
    [operation] = [
        operations[method]
        for template, operations in document["paths"].items()
        if method in operations
        and re.fullmatch(re.sub("{.*?}", "[^/]*", template), path)
        and (template == path or path not in document["paths"])
    ]
    kind = answer.headers["content-type"] if answer.content else ""
    check_declared(document, operation, answer.status_code, kind, answer.content)


def test_answers_are_as_declared(enabler_url: str, agent: AgentClient) -> None:
    now = system_clock()
    agent.put([Point("x", "e", now, 1.0)])
    document = httpx.get(f"{enabler_url}/openapi.json").json()
    submitted = httpx.post(f"{enabler_url}/api/insights", json={"queries": _TEXT})
    check_answer(document, submitted)
    statuses = set()
    for method, path, body in requests(submitted.json()["deployment_id"]):
        content = {} if body is None else {"json": body}
        answer = httpx.request(method, f"{enabler_url}{path}", **content)
        check_answer(document, answer)
        statuses.add(answer.status_code)
    assert statuses == {200, 201, 204, 400, 404}
