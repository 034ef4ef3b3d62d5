"""The requests of the console: answers that break off, and requests that are repeated."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.console_modules import DRAW, call


@pytest.fixture
def page(module_page: Page) -> Page:
    return module_page


def test_request_key_depends_on_the_whole_body(page: Page) -> None:
    body = "return a.map((each) => m.requestKey('k', each))"
    bodies = [{"queries": "t", "name": name} for name in ("a", "b", "a", None)]
    keys = call(page, "pages/submit.js", body, *bodies)
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


ANSWERS = """
const former = window.fetch;
const answers = a[0].map(([status, body]) => new Response(JSON.stringify(body), {status}));
window.fetch = async () => answers.shift();
const restore = () => { window.fetch = former; };
"""


def test_answer_that_breaks_off_is_no_answer(page: Page) -> None:
    body = """
    const former = window.fetch;
    const broken = new ReadableStream({pull: (to) => to.error(new TypeError("network error"))});
    window.fetch = async () => new Response(broken);
    const found = await m.get("api/x").catch((error) => [error.status, m.isTemporary(error)]);
    window.fetch = former;
    return found;
    """
    assert call(page, "app/api.js", body) == [0, True]


def test_examples_are_read_again_after_an_error(page: Page) -> None:
    body = """
    const first = await m.readExamples().catch((error) => error.status);
    const second = await m.readExamples();
    restore();
    return [first, second];
    """
    answers = [[503, {"error": {"message": "busy"}}], [200, [{"title": "t"}]]]
    read = call(page, "app/language.js", ANSWERS + body, answers)
    assert read == [503, [{"title": "t"}]]


INSIGHT = {"name": "a", "every_ms": 1000, "first_tick": 1, "lag_ms": 1, "lifecycle": None}
PREVIEW = {"insights": ["a"], "results": [], "problems": []}


@pytest.mark.parametrize(
    ("module", "component", "properties", "answer", "shown"),
    [
        (
            *("pages/results.js", "ResultsView", {"id": "d", "insight": INSIGHT}),
            *({"results": []}, "No results yet"),
        ),
        ("pages/preview.js", "Preview", {"text": "t", "isRight": True}, PREVIEW, "Compute again"),
    ],
    ids=["results", "preview"],
)
def test_read_that_is_refused_for_a_time_is_repeated(
    page: Page, module: str, component: str, properties: Any, answer: Any, shown: str
) -> None:
    body = """
    draw(m[a[1]], a[2]);
    const found = [await seen("busy"), await seen(a[3]), element.textContent.includes("busy")];
    remove();
    restore();
    return found;
    """
    answers = [[503, {"error": {"message": "busy"}}], [200, answer]]
    found = call(page, module, DRAW + ANSWERS + body, answers, component, properties, shown)
    assert found == [True, True, False]
