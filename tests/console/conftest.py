"""A page of a real browser in which the console's modules run, under the console's policy."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from playwright.sync_api import Page
from starlette.routing import Mount

from console.pages import POLICY, pages
from tests.support.chromium import playwright_chromium
from tests.support.http_server import served


@pytest.fixture(scope="module")
def module_page(processes: None) -> Iterator[Page]:
    app = FastAPI()
    empty = HTMLResponse("<!DOCTYPE html>", headers={"Content-Security-Policy": POLICY})
    app.add_api_route("/empty", lambda: empty)
    app.router.routes.append(Mount("/console", pages()["/console"]))
    with served(app) as url, playwright_chromium() as browser:
        page = browser.new_page()
        # A file with the policy of the console, in which the modules run.
        page.goto(f"{url}/console/icon.svg")
        yield page


@pytest.fixture
def html_page(module_page: Page) -> Iterator[Page]:
    """An empty page of HTML, in which the editor can be drawn."""
    browser = module_page.context.browser
    assert browser is not None
    page = browser.new_page()
    page.goto(module_page.url.replace("/console/icon.svg", "/empty"))
    yield page
    page.close()
