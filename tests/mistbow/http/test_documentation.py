"""The documentation pages of a service, and the login to these pages."""

import re
from collections.abc import Iterator

import httpx
import pytest

from mistbow.http.documentation import DOCUMENTATION_PATHS
from storage_agent.settings import AgentSettings
from tests.support.http_server import plain_service, served

TOKEN = "of-the-fog"  # noqa: S105


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(plain_service(AgentSettings(), "a <test>")) as url:
        yield url


@pytest.fixture(scope="module")
def guarded_url() -> Iterator[str]:
    with served(plain_service(AgentSettings(token=TOKEN))) as url:
        yield url


def test_page_loads_only_files_of_the_service(url: str) -> None:
    page = httpx.get(f"{url}/docs")
    assert page.headers["Content-Type"].startswith("text/html")
    assert "<title>a &lt;test&gt;</title>" in page.text
    assert "://" not in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy
    files = re.findall(r'(?:src|href)="(docs/[^"]+)"', page.text)
    assert len(files) == 3
    for file in files:
        assert f"/{file}" in DOCUMENTATION_PATHS
        assert httpx.get(f"{url}/{file}").is_success


def test_former_page_redirects_to_the_documentation(url: str) -> None:
    assert httpx.get(f"{url}/redoc", follow_redirects=True).url.path == "/docs"


@pytest.mark.parametrize("path", sorted(DOCUMENTATION_PATHS))
def test_browser_is_asked_for_a_login_and_shown_the_page_with_it(
    guarded_url: str, path: str
) -> None:
    refused = httpx.get(guarded_url + path)
    assert refused.status_code == 401
    challenges = refused.headers.get_list("WWW-Authenticate")
    assert [each.partition(" ")[0] for each in challenges] == ["Bearer", "Basic"]
    for user in ("", "anyone"):
        assert httpx.get(guarded_url + path, auth=(user, TOKEN)).status_code in (200, 307)
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert httpx.get(guarded_url + path, headers=bearer).status_code in (200, 307)


@pytest.mark.parametrize(
    "login", ["Basic", "Basic !", "Basic dG9rZW4=", "Basic Og==", "Basic b2YtdGhlLWZvZw=="]
)
def test_wrong_login_is_answered_401(guarded_url: str, login: str) -> None:
    answer = httpx.get(f"{guarded_url}/docs", headers={"Authorization": login})
    assert answer.status_code == 401


def test_login_of_the_pages_permits_no_other_request(guarded_url: str) -> None:
    for path in ("/readyz", "/metrics", "/docs/", "/docs/x", "/docs/../readyz"):
        answer = httpx.get(guarded_url + path, auth=("", TOKEN))
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_document_declares_the_token_of_each_request(guarded_url: str) -> None:
    document = httpx.get(f"{guarded_url}/openapi.json", auth=("", TOKEN)).json()
    scheme = document["components"]["securitySchemes"]["bearer"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert document["paths"]["/readyz"]["get"]["security"] == [{"bearer": ["read"]}]
