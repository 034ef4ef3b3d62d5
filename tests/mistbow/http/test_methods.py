"""The answers to paths that do not exist, and to methods that a path does not take."""

import httpx
from fastapi import APIRouter

from mistbow.auth.rules import requires
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served


async def _answer() -> None:
    return None


def test_refused_method_names_the_methods_of_all_routes_of_the_path() -> None:
    router = APIRouter()
    router.add_api_route("/items/{name}", _answer, methods=["PUT"])
    router.add_api_route("/items/{name}", _answer, methods=["DELETE"])
    service = plain_service(AgentSettings())
    service.add_api_route("/items/{name}", _answer)
    service.include_router(router)
    with served(service) as url:
        refused = httpx.post(f"{url}/items/a")
    assert refused.status_code == 405
    assert refused.headers["Allow"] == "GET, PUT, DELETE"
    assert refused.json()["error"]["hint"] == "The path has the methods GET, PUT, DELETE."


def test_path_with_a_slash_at_its_end_is_answered_404_and_not_redirected() -> None:
    router = APIRouter()
    router.add_api_route("/put", requires("ingest")(_answer), methods=["POST"])
    service = plain_service(AgentSettings())
    service.include_router(router)
    with served(service) as url:
        answers = [httpx.post(f"{url}/put/"), httpx.get(f"{url}/healthz/")]
        assert httpx.post(f"{url}/put").is_success
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
        assert answer.json()["error"]["hint"].startswith("Omit the / at the end.")
