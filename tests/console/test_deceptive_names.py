"""Names that contain invisible characters, or reverse the order of texts, are shown by code."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.console_modules import DRAW, call

HOSTILE = "a\u202egnp.\u200bexe"
ESCAPED = "a⟨U+202E⟩gnp.⟨U+200B⟩exe"

DRAWN = (
    DRAW
    + """
const ATTRIBUTES = ["aria-label", "title", "placeholder"];
const texts = () => [
  element.textContent,
  ...[...element.querySelectorAll("*")].flatMap((each) =>
    ATTRIBUTES.map((name) => each.getAttribute(name) ?? "")),
].join(" | ");
const shown = (text) => waitFor(() => texts().includes(text));
const fetchOfBrowser = window.fetch;
const answer = (body, status = 200) => new Response(JSON.stringify(body), {status});
const ended = (found) => {
  remove();
  window.fetch = fetchOfBrowser;
  return found;
};
"""
)


@pytest.fixture
def page(module_page: Page) -> Page:
    return module_page


def test_completion_shows_a_name_by_code_and_inserts_the_name(page: Page) -> None:
    body = """
    window.fetch = async () => answer(a[0]);
    const line = {text: "x", from: 0, to: 1, number: 1};
    const doc = {
      toString: () => "x", sliceString: () => "", length: 1, lines: 1,
      line: () => line, lineAt: () => line,
    };
    const context = {state: {doc}, pos: 1, explicit: true, matchBefore: () => null};
    const {options} = await m.complete(context);
    return ended(options[0]);
    """
    item = {"label": HOSTILE, "insert": HOSTILE, "kind": "metric", "detail": HOSTILE}
    completions = {"items": [item], "line": 1, "column": 1, "length": 1}
    shown = call(page, "pages/write.js", DRAWN + body, completions)
    assert shown == {"label": ESCAPED, "detail": f"metric · {ESCAPED}", "apply": HOSTILE}


def test_note_of_format_shows_a_name_by_code(page: Page) -> None:
    body = """
    window.fetch = async () => answer({error: {message: a[0]}}, 400);
    draw(m.Format, {text: "x", onText: () => {}});
    element.querySelector("button").click();
    await shown("gnp.");
    return ended(texts());
    """
    shown = call(page, "pages/write.js", DRAWN + body, f"no metric {HOSTILE}")
    assert f"no metric {ESCAPED}" in shown
    assert "\u202e" not in shown


def test_preview_shows_names_by_code(page: Page) -> None:
    results = [
        {"insight": HOSTILE, "key": {HOSTILE: HOSTILE}, "ts": ts, "value": 1, "revision": 0}
        for ts in (1000, 2000)
    ]
    previewed = {
        **{"insights": [HOSTILE], "results": results, "problems": [], "units": {HOSTILE: HOSTILE}},
        **{"from": 0, "to": 5000, "took_ms": 1},
        **{"worker": f"w-{HOSTILE}", "missing_sites": [f"s-{HOSTILE}"]},
    }
    body = """
    window.fetch = async () => answer(a[0]);
    draw(m.Preview, {text: "t", isRight: true});
    await shown("computed in");
    return ended(texts());
    """
    shown = call(page, "pages/preview.js", DRAWN + body, previewed)
    assert f"on w-{ESCAPED}." in shown
    assert f"Without the sites s-{ESCAPED}." in shown
    assert f"Preview of {ESCAPED};" in shown
    assert "\u202e" not in shown


def test_plan_shows_names_by_code(page: Page) -> None:
    placed = {
        **{"id": HOSTILE, "kind": "whole", "worker": f"w-{HOSTILE}", "site": f"s-{HOSTILE}"},
        **{"cores": 1, "memory_mb": None},
    }
    group = {
        **{"id": "g", "problem": HOSTILE, "fragments": [placed], "edges": [], "savings": []},
        **{"refusals": [HOSTILE], "latency_ms": None, "cost_per_hour": None},
    }
    shared = {"insight": HOSTILE, "id": "1", "text": HOSTILE}
    explained = {"groups": [group], "shared": [shared], "plan": [HOSTILE], "steps": []}
    body = """
    window.fetch = async (url) => answer(`${url}`.includes("explain") ? a[0] : {});
    draw(m.Assistant, {text: "t", isRight: true, editor: {}, onText: () => {}});
    element.querySelector("#tab-plan").click();
    await shown("Plan after the optimizer");
    return ended(texts());
    """
    shown = call(page, "pages/assistant.js", DRAWN + body, explained)
    assert f"w-{ESCAPED} at s-{ESCAPED}" in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize(
    ("module", "component", "properties"),
    [
        ("parts/ui.js", "Card", {"title": HOSTILE}),
        ("parts/ui.js", "Card", {"title": "plain", "label": HOSTILE}),
        ("parts/ui.js", "SortHead", {"order": {}, "by": "a", "title": HOSTILE}),
        ("parts/plot.js", "TimePlot", {"lines": [], "label": HOSTILE}),
    ],
    ids=["title of a card", "label of a card", "heading of a column", "plot"],
)
def test_label_shows_a_name_by_code(
    page: Page, module: str, component: str, properties: dict[str, Any]
) -> None:
    body = "draw(m[a[0]], a[1]); await shown('gnp.'); return ended(texts());"
    shown = call(page, module, DRAWN + body, component, properties)
    assert ESCAPED in shown
    assert "\u202e" not in shown


def test_lines_of_a_plot_are_named_only_in_its_tip(html_page: Page) -> None:
    body = """
    draw(m.TimePlot, {lines: [a[0]], label: "a plot"});
    const isDrawn = await waitFor(() => Boolean(element.querySelector("canvas")));
    return ended([isDrawn, element.querySelector(".plot").textContent]);
    """
    line = {"label": HOSTILE, "colour": "#000000", "times": [0, 10], "values": [1, 2]}
    assert call(html_page, "parts/plot.js", DRAWN + body, line) == [True, ""]


def test_site_is_found_by_the_code_of_its_name(page: Page) -> None:
    body = """
    const live = await import("/console/app/live.js");
    window.fetch = async () => answer({first: null, last: null, changes: []});
    live.fog.set({site_states: [{name: a[0], reachable: true}]});
    draw(m.FogPage, {route: {parts: [], query: new URLSearchParams()}});
    const options = () => [...element.querySelectorAll("datalist option")];
    await waitFor(() => options().length);
    const found = options().map((each) => each.value);
    const input = element.querySelector("[list=site-names]");
    input.value = found[0];
    input.dispatchEvent(new Event("input", {bubbles: true}));
    found.push(decodeURIComponent(location.hash));
    live.fog.set(null);
    location.hash = "";
    return ended(found);
    """
    assert call(page, "pages/fog.js", DRAWN + body, HOSTILE) == [ESCAPED, f"#/fog/{HOSTILE}"]


@pytest.mark.parametrize(
    ("module", "component", "properties"),
    [
        ("parts/editor.js", "TextEditor", {"value": f"{HOSTILE}\u2068\u2060", "label": "a text"}),
        ("parts/diff.js", "Diff", {"before": "", "after": f"{HOSTILE}\u2068\u2060"}),
    ],
    ids=["editor", "differences"],
)
def test_editor_shows_characters_of_its_text_by_code(
    html_page: Page, module: str, component: str, properties: dict[str, Any]
) -> None:
    body = """
    const {insightLanguage} = await import("/console/parts/highlight.js");
    draw(m[a[0]], {...a[1], language: insightLanguage, onChange: () => {}});
    const root = () => element.querySelector(".editor").shadowRoot;
    const lines = () =>
      [...(root()?.querySelectorAll(".cm-line") ?? [])].map((each) => each.textContent);
    await waitFor(() => lines().join("").includes("gnp."));
    return ended(lines());
    """
    lines = call(html_page, module, DRAWN + body, component, properties)
    assert f"{ESCAPED}⟨U+2068⟩⟨U+2060⟩" in lines


def test_names_of_sites_that_differ_in_spaces_differ_in_the_picture(html_page: Page) -> None:
    body = """
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = "/console/style/parts.css";
    await new Promise((each) => { sheet.onload = each; document.head.append(sheet); });
    const {sitesOf} = await import("/console/parts/fog_model.js");
    const fog = {site_states: ["a b", "a  b", "  a b"].map((name) => ({name}))};
    draw(m.FogMap, {fog, sites: sitesOf(fog), isMap: false, chosen: "", onChoose: () => {}});
    const labels = () => [...element.querySelectorAll(".label")];
    await waitFor(() => labels().length === 3);
    const lengths = labels().map((each) => [each.textContent, each.getComputedTextLength()]);
    return ended(Object.fromEntries(lengths));
    """
    lengths = call(html_page, "parts/fog_map.js", DRAWN + body)
    assert lengths["a b"] < lengths["a  b"] <= lengths["  a b"]


def test_names_that_differ_in_spaces_differ_on_the_page(html_page: Page) -> None:
    body = """
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = "/console/style/base.css";
    await new Promise((each) => { sheet.onload = each; document.head.append(sheet); });
    const boxOf = (text) => {
      draw(m.Name, {text});
      return element.querySelector("bdi").getBoundingClientRect();
    };
    const names = ["a b", " a b", "a b ", "a  b"];
    const widths = names.map((text) => Math.round(10 * boxOf(text).width));
    element.style.width = "20px";
    const wrapped = boxOf("a long name of a site").height;
    element.className = "nowrap";
    return ended([widths, wrapped, boxOf("a long name of a site").height, boxOf("a").height]);
    """
    (plain, *others), wrapped, unwrapped, line = call(html_page, "parts/ui.js", DRAWN + body)
    assert all(each > plain for each in others)
    assert wrapped > unwrapped == line


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({"__name__": "x", "region": 'a", host="b'}, 'x{region="a\\", host=\\"b"}'),
        ({"__name__": "x", "region": "a", "host": "b"}, 'x{region="a", host="b"}'),
        ({"path": "C:\\"}, '{path="C:\\\\"}'),
        ({}, "{}"),
    ],
)
def test_series_of_promql_are_named_as_promql_quotes_their_labels(
    page: Page, labels: dict[str, str], text: str
) -> None:
    assert call(page, "pages/promql.js", "return m.textOf(a[0])", labels) == text
