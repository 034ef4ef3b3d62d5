"""What parts of the console show, and how they behave, in a real browser."""

import math
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.console_complaints import complaints_of
from tests.support.console_modules import DRAW, STREAMS, call

HOSTILE = "<img src=x onerror='window.hacked=1'>\u202egnp.exe"

DRAWN = (
    DRAW
    + """
const button = (text) =>
  [...element.querySelectorAll("button")].find((each) => each.textContent.trim() === text);
"""
)


@pytest.fixture
def page(module_page: Page) -> Page:
    return module_page


def test_map_shows_hostile_names_as_text(page: Page) -> None:
    body = """
    const model = await import("/console/parts/fog_model.js");
    const [fog] = a;
    draw(m.FogMap, {fog, sites: model.sitesOf(fog), isMap: false, chosen: "", onChoose: () => {}});
    await seen("<img");
    const labelled = [...element.querySelectorAll("[aria-label]")];
    const texts = [element.textContent, ...labelled.map((each) => each.getAttribute("aria-label"))];
    const images = element.querySelectorAll("img").length;
    const found = [texts.join(" "), images, Boolean(window.hacked)];
    remove();
    return found;
    """
    name, other = f"a {HOSTILE}", f"b {HOSTILE}"
    problem = {"severity": "error", "kind": "?", "what": HOSTILE}
    fog = {
        "site_states": [{"name": name, "problems": [problem]}, {"name": other}],
        "nodes": [{"name": HOSTILE, "site": other}],
        "links": [{"source": name, "target": other, "latency_ms": 200, "loss": 0}],
        "fragments": [{"fragment": HOSTILE, "site": other, "node": HOSTILE, "kind": "whole"}],
        "flows": [{"source": name, "target": other, "kind": HOSTILE, "group": HOSTILE}],
    }
    text, images, is_hacked = call(page, "parts/fog_map.js", DRAWN + body, fog)
    assert text.count("<img") >= 9, "sites, problem, worker, fragment, link, flow and group"
    assert "\u202e" not in text
    assert (images, is_hacked) == (0, False)


@pytest.mark.parametrize(
    ("north", "east", "km"), [(48.14, 11.58, 504), (52.53, 13.405, 1.1)], ids=["cities", "streets"]
)
def test_bar_of_the_map_has_the_length_that_it_states(
    page: Page, north: float, east: float, km: float
) -> None:
    positions = {
        "here": {"latitude": 52.52, "longitude": 13.405},
        "there": {"latitude": north, "longitude": east},
    }
    states = [{"name": name, "position": each} for name, each in positions.items()]
    body = """
    const sites = m.sitesOf(a[0]);
    return [[...m.mapLayout(sites, 780, 500).values()], m.scaleBar(sites, 780, 500, 140)];
    """
    places, bar = call(page, "parts/fog_model.js", body, {"site_states": states})
    number, unit = bar["text"].split()
    length = float(number) * {"km": 1, "m": 0.001}[unit]
    assert math.dist(*places) / bar["length"] * length == pytest.approx(km, rel=0.03)
    assert 50 < bar["length"] <= 140


def test_map_of_one_place_has_no_bar(page: Page) -> None:
    here = {"latitude": 52.5, "longitude": 13.4}
    states = [{"name": name, "position": here} for name in "ab"]
    body = "return m.scaleBar(m.sitesOf(a[0]), 780, 500, 140)"
    assert call(page, "parts/fog_model.js", body, {"site_states": states}) is None


def test_page_that_fails_shows_a_notice_and_is_a_complaint(page: Page) -> None:
    complaints = complaints_of(page)
    body = """
    const Broken = () => { throw new Error("it broke"); };
    draw(m.Boundary, {children: h(Broken)});
    const found = await seen("it broke") && Boolean(button("Load again"));
    remove();
    return found;
    """
    assert call(page, "parts/boundary.js", DRAWN + body)
    [complaint] = complaints
    assert complaint.startswith("view_failed Error: it broke")


def test_amendment_that_is_refused_shows_what_was_changed_meanwhile(html_page: Page) -> None:
    body = """
    const {session} = await import("/console/app/session.js");
    session.set({scopes: ["admin"]});
    const base = {version: "1", queries: "first", name: null};
    const author = {amended_by: "token anna", amended_at: 1};
    const changed = {version: "2", queries: "second", name: HOSTILE, ...author};
    const requests = [];
    const former = window.fetch;
    window.fetch = async (url, {headers, body}) => {
      requests.push([headers["If-Match"], JSON.parse(body)]);
      const isFirst = requests.length === 1;
      const answer = isFirst ? {error: {message: "?"}} : {deployment_id: "d-1", insights: ["a"]};
      return new Response(JSON.stringify(answer), {status: isFirst ? 412 : 200});
    };
    let isDone = false;
    const shown = (present) => draw(m.Submit, {
      id: "d-1", base, present, text: "mine", name: "", onName: () => {}, isRight: true,
      onDone: () => { isDone = true; }, refresh: async () => shown(changed),
    });
    shown(base);
    (await waitFor(() => button("Review the amendment"))).click();
    (await waitFor(() => button("Amend"))).click();
    const isTold = await seen("changed meanwhile by token anna");
    const isFixed = Boolean(button("Amend")?.disabled) && !button("Replace the change");
    button("Show the change").click();
    const isShown = await seen("named <img");
    const hosts = () => [...element.querySelectorAll(".diff")];
    await waitFor(() => hosts().every((each) => each.shadowRoot?.textContent));
    const diffs = hosts().map((each) => each.shadowRoot.textContent);
    const words = ["first", "second", "mine"];
    const texts = diffs.map((text) => words.filter((each) => text.includes(each)));
    const isEnabled = () => button("Replace the change")?.disabled === false;
    await waitFor(isEnabled);
    button("Replace the change").click();
    await waitFor(() => isDone);
    remove();
    window.fetch = former;
    session.set(undefined);
    return [isTold && isFixed && isShown, texts, requests, isDone];
    """
    source = f"const HOSTILE = {HOSTILE!r};"
    told, texts, requests, done = call(html_page, "pages/submit.js", source + DRAWN + body)
    assert told
    assert done
    assert texts == [["first", "second"], ["second", "mine"]]
    sent = {"queries": "mine", "name": None}
    assert requests == [['"1"', sent], ['"2"', sent]]


@pytest.mark.parametrize(
    ("version", "queries", "changed"),
    [("1", "old", False), ("2", "new", True), ("2", "mine", False)],
    ids=["same", "by another user", "by this amendment"],
)
def test_deployment_has_changed_if_its_text_is_neither_former_nor_new(
    page: Page, version: str, queries: str, changed: bool
) -> None:
    present = {"version": version, "queries": queries}
    body = 'return m.isChangedSince({version: "1", queries: "old"}, a[0], "mine")'
    assert call(page, "pages/submit.js", body, present) is changed


def test_text_that_was_typed_meanwhile_is_not_replaced_by_the_formatted_one(page: Page) -> None:
    body = """
    const former = window.fetch;
    const answers = [];
    window.fetch = () => new Promise((resolve) => answers.push(resolve));
    const formatted = [];
    const show = (text) => draw(m.Format, {text, onText: (each) => formatted.push(each)});
    const format = async () => {
      (await waitFor(() => button("Format"))).click();
      await waitFor(() => answers.length);
      return answers.shift();
    };
    const answer = (queries) => new Response(JSON.stringify({ok: true, queries}));
    show("a");
    const first = await format();
    show("a b");
    first(answer("A"));
    const second = await format();
    second(answer("A B"));
    // The answers are read one after the other: the first one has been dropped by now.
    await waitFor(() => formatted.includes("A B"));
    remove();
    window.fetch = former;
    return formatted;
    """
    assert call(page, "pages/write.js", DRAWN + body) == ["A B"]


def test_request_forgets_what_it_read_for_others(page: Page) -> None:
    body = """
    const read = [];
    const pending = new Map();
    const reader = (of) => () => new Promise((resolve) => pending.set(of, () => resolve(of)));
    const Shown = ({of, forgets}) => {
      const {data} = m.useRequest(reader(of), 0, [of], forgets);
      return h("p", {}, `read: ${data}`);
    };
    const found = [];
    for (const forgets of [false, true]) {
      draw(Shown, {of: "a", forgets, key: `${forgets}`});
      (await waitFor(() => pending.get("a")))();
      await seen("read: a");
      draw(Shown, {of: "b", forgets, key: `${forgets}`});
      await waitFor(() => pending.get("b"));
      await new Promise((each) => requestAnimationFrame(() => setTimeout(each, 50)));
      found.push(element.textContent);
      pending.clear();
      remove();
      document.documentElement.append(element);
    }
    remove();
    return found;
    """
    assert call(page, "app/hooks.js", DRAWN + body) == ["read: a", "read: null"]


@pytest.mark.parametrize(
    ("skew_ms", "expected_ms"), [(90_000, 90_000), (-600_000, -600_000), (2_000, 0)]
)
def test_time_is_that_of_the_enabler_if_the_clocks_differ(
    page: Page, skew_ms: int, expected_ms: int
) -> None:
    body = """
    m.learn(new Date(Date.now() + a[0]).toUTCString());
    const found = m.now() - Date.now();
    m.learn(new Date().toUTCString());
    return found;
    """
    assert abs(call(page, "app/clock.js", body, skew_ms) - expected_ms) <= 1000


@pytest.mark.parametrize(
    ("query", "past"),
    [("from=1&to=2", [1, 2]), ("from=2&to=1", None), ("from=x&to=2", None), ("", None)],
)
def test_range_of_results_is_read_from_the_address(page: Page, query: str, past: Any) -> None:
    body = "return m.pastIn(new URLSearchParams(a[0]))"
    assert call(page, "pages/results.js", body, query) == past


def test_question_marks_in_the_query_of_an_address_are_read(page: Page) -> None:
    body = "return m.parse('#/explore?view=sql&query=SELECT ?').query.get('query')"
    assert call(page, "app/route.js", body) == "SELECT ?"


def test_amendment_shows_a_deletion_that_the_stream_has_missed(html_page: Page) -> None:
    body = """
    const live = await import("/console/app/live.js");
    let isDeleted = false;
    const others = {problems: [], decisions: [], metrics: [], attributes: [], results: []};
    others.insights = [];
    window.fetch = async (url) => {
      const {pathname} = new URL(url);
      if (pathname.endsWith("examples.json")) return new Response("[]");
      if (!pathname.endsWith("api/insights/d-1")) return new Response(JSON.stringify(others));
      const answer = isDeleted ? {error: {message: "no such deployment"}} : a[0];
      return new Response(JSON.stringify(answer), {status: isDeleted ? 404 : 200});
    };
    live.start();
    await waitFor(() => streams.length);
    streams[0].receive("hello", {});
    streams[0].receive("state", {deployment_id: "d-1", version: "1"});
    draw(m.WritePage, {route: {parts: ["d-1"], query: new URLSearchParams()}});
    await seen("Amend n");
    await new Promise((each) => setTimeout(each, 300));
    isDeleted = true;
    live.need("health");
    await waitFor(() => streams.length === 2);
    streams[1].receive("hello", {});
    streams[1].receive("present", {deployment_ids: []});
    const found = await seen("This deployment was deleted meanwhile.");
    live.stop();
    remove();
    return found;
    """
    insights = [{"name": "a", "text": "a = COMPUTE AVG(x)"}]
    deployed = {"deployment_id": "d-1", "name": "n", "version": "1", "insights": insights}
    deployed["queries"] = "a = COMPUTE AVG(x)"
    assert call(html_page, "pages/write.js", DRAWN + STREAMS + body, deployed)


EXPLORED = """
const later = window.setTimeout;
window.setTimeout = (run, ms, ...rest) => later(run, ms >= 5000 ? ms / 40 : ms, ...rest);
const pause = (ms) => new Promise((each) => later(each, ms));
const json = (value) => new Response(JSON.stringify(value));
let metrics = [];
const reads = {metrics: 0, series: 0};
const began = Date.now();
window.fetch = async (url) => {
  const name = new URL(url).pathname.split("/").at(-1);
  if (name in reads) reads[name] += 1;
  if (name === "metrics") return json({metrics, total: 0, next: null, missing_sites: []});
  if (name !== "series") return json({attributes: [], rows: []});
  if (reads.series > 3) return new Promise(() => {});
  const latest = {ts: began - 1000, value: 1000 + reads.series};
  return json({series: [{site: "s", entity: "e", latest}], next: null});
};
draw(m.MetricsExplorer, {metric: "x"});
"""


def test_values_and_ages_of_series_are_current(html_page: Page) -> None:
    body = """
    const isRead = [await seen("1001"), await seen("1003")];
    const age = () => element.querySelector("tbody td:last-child").textContent;
    const former = age();
    return [isRead, /^[0-9.]+ s ago$/.test(former), await waitFor(() => age() !== former)];
    """
    found = call(html_page, "pages/metrics.js", DRAWN + EXPLORED + body)
    assert found == [[True, True], True, True]


def test_empty_list_of_metrics_is_read_again_and_a_full_one_is_not(html_page: Page) -> None:
    body = """
    const found = [await seen("No metric is known yet")];
    metrics = [a[0]];
    found.push(await seen("fresh"));
    const count = reads.metrics;
    await pause(1500);
    return [...found, reads.metrics - count];
    """
    metric = {"metric": "fresh", "entity_count": 1, "sites": ["s"], "labels": {}, "group": None}
    found = call(html_page, "pages/metrics.js", DRAWN + EXPLORED + body, metric)
    assert found == [True, True, 0]


DRAINED = [
    {"name": "w1", "site": "s", "cores": 1, "cores_free": 1, "memory_mb": 1, "memory_free_mb": 1},
    {"name": "w2", "site": "s", "cores": 1, "cores_free": 1, "memory_mb": 1, "memory_free_mb": 1,
     "drained": True},
]  # fmt: skip


def test_drained_worker_has_a_badge_at_its_site(page: Page) -> None:
    body = """
    const former = window.fetch;
    window.fetch = async () => new Response(JSON.stringify({metrics: []}));
    const site = {name: "s", state: {name: "s"}, workers: a[0], fragments: [], problems: []};
    draw(m.SiteDetails, {site, fog: {}, at: null});
    await seen("w2");
    const found = [...element.querySelectorAll("[aria-label=Workers] tbody tr")]
      .map((each) => each.querySelector(".badge")?.textContent ?? "");
    remove();
    window.fetch = former;
    return found;
    """
    assert call(page, "pages/site.js", DRAWN + body, DRAINED) == ["", "drained"]


def test_map_states_which_workers_are_drained(page: Page) -> None:
    body = """
    const {sitesOf} = await import("/console/parts/fog_model.js");
    const fog = {site_states: [{name: "s"}], nodes: a[0]};
    draw(m.FogMap, {fog, sites: sitesOf(fog), isMap: false, chosen: "", onChoose: () => {}});
    await waitFor(() => element.querySelector("[data-worker]"));
    const found = [...element.querySelectorAll(".site title")].map((each) => each.textContent);
    remove();
    return found;
    """
    titles = call(page, "parts/fog_map.js", DRAWN + body, DRAINED)
    assert titles[:2] == ["worker w1: no fragment", "worker w2, drained: no fragment"]
    assert "2 workers, 1 drained" in titles[2]


HISTORY = """
const live = await import("/console/app/live.js");
const former = window.fetch;
const spans = [];
const now = Date.now();
window.fetch = async (url) => {
  if (!`${url}`.includes("history")) return new Response("{}");
  const query = new URL(url).searchParams;
  spans.push(Number(query.get("to")) - Number(query.get("from")));
  const isRefused = a[0] && spans.length > 1;
  const body = isRefused ? {error: {message: a[0]}} : {first: now - 60_000, last: now, changes: []};
  return new Response(JSON.stringify(body), {status: isRefused ? 400 : 200});
};
live.fog.set({site_states: [{name: "s", reachable: true}]});
draw(m.FogPage, {route: {parts: [], query: new URLSearchParams()}});
(await waitFor(() => button("24 h"))).click();
await waitFor(() => spans.length > 1);
const closed = (found) => {
  remove();
  live.fog.set(null);
  window.fetch = former;
  return found;
};
"""


def test_history_of_a_day_is_not_longer_than_a_day(page: Page) -> None:
    body = "return closed(spans)"
    hour_ms = 3_600_000
    assert call(page, "pages/fog.js", DRAWN + HISTORY + body, "") == [hour_ms, 24 * hour_ms]


def test_history_that_cannot_be_read_has_its_error(page: Page) -> None:
    body = "return closed([await seen(a[0]), Boolean(button('1 h'))])"
    message = "the history cannot be read"
    assert call(page, "pages/fog.js", DRAWN + HISTORY + body, message) == [True, True]
