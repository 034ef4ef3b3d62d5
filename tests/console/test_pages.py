"""The console as the enabler serves it: its files, its headers, and that it loads nothing else."""

import re
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from console.pages import pages, static_folder

STATIC = static_folder()


async def get(path: str, method: str = "GET", mounted: str | None = None) -> httpx.Response:
    """Return the answer of the application that is mounted at the first part of a path."""
    prefix = mounted or ("/" if path == "/" else "/console")
    app: ASGIApp = pages()[prefix]
    root = "" if prefix == "/" else prefix
    transport = httpx.ASGITransport(app, root_path=root)
    async with httpx.AsyncClient(transport=transport, base_url="http://enabler") as client:
        return await client.request(method, path)


@pytest.mark.parametrize("path", ["/", "/console/app/main.js", "/console/nothing.js"])
async def test_every_answer_forbids_scripts_and_styles_of_others(path: str) -> None:
    headers = (await get(path)).headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/console/../pages.py", "/console/%2e%2e/pages.py"])
async def test_files_outside_the_folder_are_not_served(path: str) -> None:
    assert (await get(path)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/console", 404, "not_found"),
        ("GET", "/console/nothing.js", 404, "not_found"),
        ("POST", "/console/app/main.js", 405, "method_not_allowed"),
    ],
)
async def test_error_has_the_form_of_all_errors(
    method: str, path: str, status: int, code: str
) -> None:
    answer = await get(path, method)
    body = answer.json()
    assert (answer.status_code, body["error"]["code"], body["result"]) == (status, code, "ERROR")
    assert path in body["message"]
    assert body["message"] == body["error"]["message"]


@pytest.mark.parametrize(("path", "location"), [("/console", "./"), ("/console/", "../")])
async def test_path_of_the_console_redirects_to_the_start_page_of_the_same_host(
    path: str, location: str
) -> None:
    for method in ("GET", "HEAD"):
        answer = await get(path, method)
        assert (answer.status_code, answer.headers["location"]) == (307, location)


async def test_page_is_not_stored_without_asking_for_changes() -> None:
    assert (await get("/")).headers["cache-control"] == "no-cache"
    assert (await get("/", "HEAD")).status_code == 200


def test_page_has_no_script_or_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", page) == []


def test_every_file_that_a_module_names_exists() -> None:
    named = set(re.findall(r'(?:src|href)="(console/[^"]+)"', (STATIC / "index.html").read_text()))
    found = {STATIC.parent / name.replace("console/", "static/", 1) for name in named}
    for module in own_modules():
        text = module.read_text()
        imports = re.findall(r'(?:from |import\()"(\.[^"]+)"', text)
        found |= {(module.parent / each).resolve() for each in imports}
    assert len(found) > 20
    assert [each for each in found if not each.is_file()] == []


def own_modules() -> list[Path]:
    return [each for each in STATIC.rglob("*.js") if "vendor" not in each.parts]
