"""The modules of the console compute right, in a real browser under the console's policy."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page
from starlette.routing import Mount

from console.pages import pages
from tests.support.chromium import playwright_chromium
from tests.support.http_server import served


@pytest.fixture(scope="module")
def page(processes: None) -> Iterator[Page]:
    app = FastAPI()
    app.router.routes.append(Mount("/console", pages()["/console"]))
    with served(app) as url, playwright_chromium() as browser:
        page = browser.new_page()
        # A file with the policy of the console, in which the modules run.
        page.goto(f"{url}/console/icon.svg")
        yield page


def call(page: Page, module: str, body: str, *arguments: Any) -> Any:
    """Return the value of a function body with ``m``, the module, and ``a``, the arguments."""
    source = f"async (a) => {{ const m = await import('/console/{module}'); {body} }}"
    return page.evaluate(source, list(arguments))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("<img onerror=x>", "<img onerror=x>"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\u0000\ufeff", "⟨U+0000⟩⟨U+FEFF⟩"),
        ("Zürich 東京 \U0001f68c", "Zürich 東京 \U0001f68c"),
    ],
)
def test_visible_shows_characters_that_deceive(page: Page, text: str, shown: str) -> None:
    assert call(page, "app/format.js", "return m.visible(a[0])", text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (12.345678, "12.346"), (1234567, "1,234,567"), (1e-9, "1.000e-9")],
)
def test_numbers_are_short(page: Page, value: float | None, shown: str) -> None:
    assert call(page, "app/format.js", "return m.number(a[0])", value) == shown


@pytest.mark.parametrize(
    ("ms", "shown"), [(5000, "5 s"), (90_000, "90 s"), (600_000, "10 min"), (86_400_000, "24 h")]
)
def test_durations_have_their_largest_unit(page: Page, ms: int, shown: str) -> None:
    assert call(page, "app/format.js", "return m.duration(a[0])", ms) == shown


def result(ts: int, value: float | None, revision: int = 0) -> dict[str, Any]:
    return {"key": {"n": 1}, "ts": ts, "value": value, "revision": revision}


def test_series_retain_the_highest_revision_in_order_of_time(page: Page) -> None:
    arrived = [result(20, 2), result(10, 1), result(20, 3, 1), result(20, 9), result(30, 4)]
    values = call(
        page,
        "parts/series.js",
        "const s = new m.SeriesSet(); s.add(a[0]); const [one] = s.byId.values();"
        "return one.results.map((each) => [each.ts, each.value])",
        arrived,
    )
    assert values == [[10, 1], [20, 3], [30, 4]]


def test_old_results_leave_a_series(page: Page) -> None:
    left = call(
        page,
        "parts/series.js",
        "const s = new m.SeriesSet(); s.add(a[0]); s.dropBefore(15); const n = s.size;"
        "s.dropBefore(99); return [n, s.size]",
        [result(10, 1), result(20, 2)],
    )
    assert left == [1, 0]


def test_changes_of_the_fog_replace_and_remove_entries(page: Page) -> None:
    before = {
        "at": 1,
        "nodes": [{"name": "w1", "cores": 1}, {"name": "w2", "cores": 1}],
        "links": [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}],
    }
    change = {
        "at": 2,
        "nodes": [{"name": "w2", "cores": 2}],
        "removed": {"nodes": ["w1"], "links": [["b", "a"]]},
    }
    after = call(page, "app/live.js", "return m.applied(a[0], a[1])", before, change)
    assert after == {
        "at": 2,
        "nodes": [{"name": "w2", "cores": 2}],
        "links": [{"source": "a", "target": "b"}],
    }


@pytest.mark.parametrize(
    ("name", "written"),
    [("cpu.util", "cpu.util"), ("disk read", '"disk read"'), ("by", '"by"'), ("7up", '"7up"')],
)
def test_names_are_quoted_when_the_language_needs_it(page: Page, name: str, written: str) -> None:
    assert call(page, "app/language.js", "return m.nameOf(a[0])", name) == written


def test_words_of_a_command_are_quoted_for_the_shell(page: Page) -> None:
    word = call(page, "pages/ways.js", "return m.shellWord(a[0])", "it's $HOME")
    assert word == "'it'\\''s $HOME'"


def test_query_is_opened_in_the_configured_grafana(page: Page) -> None:
    source = """
        const url = new URL(m.grafanaLink(a[0], a[1]));
        const {queries} = JSON.parse(url.searchParams.get("panes")).mistbow;
        return [url.origin + url.pathname, queries[0].expr];
    """
    query = "insight:a & <b>"
    opened = call(page, "pages/ways.js", source, "http://grafana:3000/sub/", query)
    assert opened == ["http://grafana:3000/sub/explore", query]


def test_addresses_of_pages_are_read_back(page: Page) -> None:
    parts = ["d-1", "<img src=x>/#?&", "100 %"]
    read = call(page, "app/route.js", "return m.parse(m.link('insights', ...a[0])).parts", parts)
    assert read == parts


def test_problems_of_sites_give_their_tone_and_a_brief_text(page: Page) -> None:
    def problem(severity: str, kind: str) -> dict[str, str]:
        return {"severity": severity, "kind": kind}

    fog = {
        "sites": ["a", "b", "c"],
        "site_states": [
            {"name": "a", "problems": [problem("error", "site_silent")]},
            {
                "name": "b",
                "problems": [problem("warning", "no_free_cores"), problem("warning", "?")],
            },
            {"name": "c", "problems": []},
        ],
    }
    problems = call(
        page,
        "parts/fog_model.js",
        "return [...m.sitesOf(a[0]).values()].map((s) => [s.tone, ...s.problems.map(m.briefOf)])",
        fog,
    )
    assert problems == [["bad", "silent"], ["warn", "no free cores", "problem"], ["good"]]


def test_policy_of_the_page_forbids_eval(page: Page) -> None:
    tried = "try { new Function('return 1')(); return 'ran' } catch (error) { return error.name }"
    assert call(page, "app/format.js", tried) == "EvalError"
