"""Every route of every service refuses a repeated parameter of the URL, unless it is a list."""

import re
from pathlib import Path

import httpx
import pytest

from mistbow.http.parameters import LISTS
from tests.test_routes_are_guarded import SERVICES, rules


@pytest.mark.parametrize("name", SERVICES)
async def test_repeated_parameter_is_refused_and_named(name: str, tmp_path: Path) -> None:
    app = SERVICES[name](tmp_path)
    routes = [route.split(" ", 1) for route in rules(app)]
    assert ["GET", "/healthz"] in routes
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for method, path in routes:
            url = re.sub(r"{[^}]*}", "x", path)
            for query in ("site=b&site=a", "site=&site=a", "%73ite=a&x=1&site=a"):
                answer = await client.request(method, f"{url}?{query}")
                case = method, path, answer.text
                assert answer.status_code == 400, case
                named = "site: the URL has this parameter more than once" in answer.text
                assert named or method == "HEAD", case


def listed(document: dict) -> set[str]:
    operations = (each for path in document["paths"].values() for each in path.values())
    return {
        parameter["name"]
        for operation in operations
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and "array" in str(parameter["schema"])
    }


def test_parameters_that_may_be_repeated_are_those_documented_as_lists(tmp_path: Path) -> None:
    found = {each for app in SERVICES.values() for each in listed(app(tmp_path).openapi())}
    assert found == LISTS
