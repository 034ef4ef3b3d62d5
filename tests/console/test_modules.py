"""The modules of the console compute right, in a real browser under the console's policy."""

import math
from itertools import combinations
from typing import Any

import pytest
from playwright.sync_api import Page

from analytics_enabler.semantics import check
from tests.support.console_modules import DRAW, call


@pytest.fixture
def page(module_page: Page) -> Page:
    return module_page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("<img onerror=x>", "<img onerror=x>"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\u0000\ufeff", "⟨U+0000⟩⟨U+FEFF⟩"),
        ("Zürich 東京 \U0001f68c \u2764\ufe0f", "Zürich 東京 \U0001f68c \u2764\ufe0f"),
        ("\u3164a\u00ad\U000e0041", "⟨U+3164⟩a⟨U+00AD⟩⟨U+E0041⟩"),
        ("a\ufe0f\u180b\U000e0100", "a⟨U+FE0F⟩⟨U+180B⟩⟨U+E0100⟩"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f⟨U+FE0F⟩"),
        (" a\u00a0b\u2009\u3000", " a⟨U+00A0⟩b⟨U+2009⟩⟨U+3000⟩"),
    ],
)
def test_visible_shows_characters_that_deceive(page: Page, text: str, shown: str) -> None:
    assert call(page, "app/format.js", "return m.visible(a[0])", text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\u202eb", "a\n⟨U+202E⟩b"),
        ("a =\r\n\tCOMPUTE\t\u202eb\r", "a =\n\tCOMPUTE\t⟨U+202E⟩b⟨U+000D⟩"),
    ],
)
def test_lines_and_tabs_of_a_text_remain(page: Page, text: str, shown: str) -> None:
    assert call(page, "app/format.js", "return m.visibleLines(a[0])", text) == shown
    name = call(page, "app/format.js", "return m.visible(a[0])", "\t\r\n")
    assert name == "⟨U+0009⟩⟨U+000D⟩⟨U+000A⟩"


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


def test_plot_has_bounds_of_samples_and_marks_at_corrections(page: Page) -> None:
    sampled = {
        **{"label": "a", "colour": "#000000", "times": [10, 20], "values": [1, 2]},
        **{"low": [0, 1], "high": [2, 3], "corrected": [20]},
    }
    exact = {"label": "b", "colour": "#000000", "times": [20, 30], "values": [5, 6]}
    parts = call(page, "parts/plot.js", "return m.columnsOf(a)", sampled, exact)
    times, first, second, high, low = parts["columns"]
    assert times == [0.01, 0.02, 0.03]
    assert (first, second) == ([1, 2, None], [None, 5, 6])
    assert (high, low) == ([2, 3, None], [0, 1, None])
    assert parts["bands"] == [{"of": 0, "series": [3, 4]}]
    assert parts["marks"][1:3] == [[1], []]


def test_all_values_of_a_list_are_shown(page: Page) -> None:
    top_three = {**result(10, 3), "values": [9.5, 4, 3]}
    assert call(page, "parts/keys.js", "return m.listOf(a[0])", top_three) == "9.5, 4, 3"
    many = {**result(10, 1), "values": list(range(30))}
    assert call(page, "parts/keys.js", "return m.listOf(a[0])", many).endswith("19 …")


@pytest.mark.parametrize(
    ("first", "earliest", "start"),
    [(990_000, 991_000, 940_000), (700_000, 800_000, 700_000), (0, 1, 400_000)],
    ids=["at least a minute", "since the first result", "the chosen range"],
)
def test_live_plot_begins_with_the_results_of_a_new_insight(
    page: Page, first: int, earliest: int, start: int
) -> None:
    body = "const s = new m.SeriesSet(); s.add(a[0]); return s.earliest"
    assert call(page, "parts/series.js", body, [result(earliest, 1)]) == earliest
    body = "return m.liveStart(1000000, 10, {first_tick: a[0]}, {earliest: a[1]})"
    assert call(page, "pages/results.js", body, first, earliest) == start


def test_attribute_that_no_point_has_is_found(page: Page) -> None:
    keys = [{"bus": None, "line": "7"}, {"bus": None, "line": None}]
    results = [{"key": key, "ts": 1, "value": 1, "revision": 0} for key in keys]
    body = "const s = new m.SeriesSet(); s.add(a[0]); return s.unknownAttributes"
    assert call(page, "parts/series.js", body, results) == ["bus"]


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
    ("change", "sites"),
    [
        ({"removed": {"site_states": ["b"]}}, ["a"]),
        ({"site_states": [{"name": "A", "problems": []}]}, ["A", "a", "b"]),
        ({"nodes": [{"name": "w1"}]}, ["a", "b"]),
    ],
    ids=["removed", "added", "neither"],
)
def test_site_that_is_removed_or_added_is_so_in_the_names_of_sites(
    page: Page, change: dict[str, Any], sites: list[str]
) -> None:
    before = {"at": 1, "sites": ["a", "b"], "site_states": [{"name": "a"}, {"name": "b"}]}
    body = "return m.applied(a[0], {at: 2, removed: {}, ...a[1]})"
    after = call(page, "app/live.js", body, before, change)
    assert after["sites"] == sites
    body = "return [...m.sitesOf(a[0]).keys()].sort()"
    assert call(page, "parts/fog_model.js", body, after) == sites


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("cpu.util", "cpu.util"),
        ("disk read", '"disk read"'),
        ("by", '"by"'),
        ("7up", '"7up"'),
        ('a"$&\\', '"a\\"$&\\\\"'),
    ],
)
def test_names_are_quoted_when_the_language_needs_it(page: Page, name: str, written: str) -> None:
    assert call(page, "app/language.js", "return m.nameOf(a[0])", name) == written


@pytest.mark.parametrize(
    ("trigger", "times"),
    [
        ({"each_point": False}, "every 10 s"),
        ({"each_point": True, "every_points": None}, "at each point"),
        ({"each_point": True, "every_points": 100}, "every 100 points"),
    ],
)
def test_insights_have_values_at_times_or_at_points(
    page: Page, trigger: dict[str, Any], times: str
) -> None:
    insight = {"text": 'a = COMPUTE AVG(x WHEN y == "EVERY DAY")', "every_ms": 10_000, **trigger}
    assert call(page, "app/language.js", "return m.timesOf(a[0])", insight) == times


def test_metrics_of_applications_are_before_those_of_machines(page: Page) -> None:
    def metric(name: str, group: str | None, **labels: list[str]) -> dict[str, Any]:
        named = name if group is not None and name.startswith(f"{group}.") else None
        return {"metric": name, "name": named, "group": group, "labels": labels}

    found = [
        metric("cpu.core.util", "cpu", core=["0", "1"]),
        metric("fare", "traffic"),
        metric("passengers", "traffic", region=["east", "west"]),
        metric("speed", None),
    ]
    ordered = call(page, "app/language.js", "return m.inOrderOfUse(a[0])", found)
    assert [each["metric"] for each in ordered] == ["passengers", "fare", "speed", "cpu.core.util"]


def test_examples_of_sql_quote_names(page: Page) -> None:
    queries = call(page, "pages/sql.js", "return m.examplesOf(a[0], a[1])", "it's", 'a"b')
    (query,) = (text for title, text in queries if title == "it's by a\"b")
    assert """attributes->>'a"b' AS "a""b",""" in query
    assert "metric = 'it''s'" in query


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("mean delay", {"search": "mean delay", "label": None}),
        ("delay region=west", {"search": "delay", "label": "region=west"}),
        ("=west", {"search": "=west", "label": None}),
        ('late town="new \\"town\\""', {"search": "late", "label": 'town=new "town"'}),
        ('"new town" "', {"search": 'new town "', "label": None}),
    ],
)
def test_attribute_in_a_search_is_a_condition(
    page: Page, text: str, conditions: dict[str, str | None]
) -> None:
    assert call(page, "pages/metrics.js", "return m.conditionsOf(a[0])", text) == conditions


@pytest.mark.parametrize("value", ["west", "new town", 'a"b\\', "=", ""])
def test_value_of_an_attribute_is_searched_as_it_is(page: Page, value: str) -> None:
    body = "return m.conditionsOf(`delay ${m.conditionOf('my town', a[0])}`)"
    found = call(page, "pages/metrics.js", body, value)
    assert found == {"search": "delay", "label": f"my town={value}"}


def test_incomplete_window_is_described(page: Page) -> None:
    begins, points, ends = (1_000_000 * 60_000 + each for each in (0, 372_000, 600_000))
    window = {"metric": "delay", "begins_at": begins, "points_from": points, "ends_at": ends}
    shown = call(page, "pages/results.js", "return m.coverageOf(a[0])", window)
    assert "the points of delay at" in shown
    assert shown.endswith("228 of 600 seconds are covered.")


def test_former_texts_are_the_latest_five_each_once(page: Page) -> None:
    body = "return m.withFormer(a[0], a[1])"
    assert call(page, "parts/draft.js", body, ["b", "a", "c"], "a") == ["a", "b", "c"]
    assert call(page, "parts/draft.js", body, list("bcdef"), "a") == list("abcde")


@pytest.mark.parametrize(
    ("first", "second"), [("region", "line"), ("line", "region"), ("site", "line")]
)
def test_second_attribute_of_examples_divides_the_points(
    page: Page, first: str, second: str
) -> None:
    attributes = [
        {"name": "entityID", "values": ["a"] * 30, "more": False},
        {"name": "line", "values": ["1", "2"], "more": False},
        {"name": "region", "values": ["east", "west"], "more": False},
        {"name": "site", "values": ["n1"], "more": False},
    ]
    body = "return m.secondOf(a[0], a[1])"
    assert call(page, "app/language.js", body, attributes, first) == second
    assert call(page, "app/language.js", body, attributes[:1], first) == "entityID"


def test_examples_are_filled_with_any_names(page: Page) -> None:
    names = {"metric": 'a"$&', "attribute": "line", "value": "7\\"}
    example = "x = COMPUTE AVG({metric}) WHEN {attribute} == {value} EVERY 1 SECOND"
    text = call(page, "app/language.js", "return m.filled(a[0], a[1])", example, names)
    assert check(text).problems == ()
    assert call(page, "app/language.js", "return m.nameOf(a[0])", names["metric"]) in text


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


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ({"latency_ms": 5, "loss": 0, "bandwidth_mbps": None, "load_mbps": 9}, ""),
        (
            {"latency_ms": 150, "loss": 0.02, "bandwidth_mbps": 10, "load_mbps": 1},
            "150 ms, 2.0 % loss",
        ),
        ({"latency_ms": 5, "loss": 0, "bandwidth_mbps": 10, "load_mbps": 9.5}, "full"),
        ({"latency_ms": 5, "loss": 0, "bandwidth_mbps": 10, "load_mbps": None}, ""),
    ],
)
def test_links_are_slow_lossy_or_full(page: Page, link: dict[str, Any], why: str) -> None:
    assert call(page, "parts/fog_model.js", "return m.slownessOf(a[0])", link) == why


def test_sites_at_one_place_do_not_cover_each_other_on_the_map(page: Page) -> None:
    here, there = {"latitude": 52.5, "longitude": 13.4}, {"latitude": 48.1, "longitude": 11.6}
    sites = [("a", here), ("b", here), ("c", here), ("d", there), ("e", None)]
    states = [{"name": name, "position": position} for name, position in sites]
    body = "return [...m.mapLayout(m.sitesOf(a[0]), 780, 500)]"
    placed = dict(call(page, "parts/fog_model.js", body, {"site_states": states}))
    assert placed.keys() == {"a", "b", "c", "d", "e"}
    assert min(math.dist(one, other) for one, other in combinations(placed.values(), 2)) > 40
    assert placed["d"][1] > max(placed[each][1] for each in "abc"), "the south is below"


def test_rows_are_in_the_order_of_a_column_and_those_without_a_value_last(page: Page) -> None:
    rows = [{"v": 10}, {"v": None}, {"v": 9}, {"v": 100}]
    body = "return [1, -1].map((s) => m.ordered(a[0], (r) => r.v, s).map((r) => r.v))"
    assert call(page, "parts/ui.js", body, rows) == [[9, 10, 100, None], [100, 10, 9, None]]


def test_empty_fog_is_not_called_well(page: Page) -> None:
    body = """
    draw(m.ToWatch, {sites: new Map()});
    const text = element.textContent;
    remove();
    return text;
    """
    text = call(page, "pages/fog.js", DRAW + body)
    assert "No site is known yet" in text
    assert "silent" not in text


@pytest.mark.parametrize(("count", "words"), [(1, "There is 1 problem;"), (2, "There are 2 ")])
def test_overview_counts_problems(page: Page, count: int, words: str) -> None:
    assert call(page, "pages/start.js", "return m.summaryOf(a[0])", count).startswith(words)


def test_policy_of_the_page_forbids_eval(page: Page) -> None:
    tried = "try { new Function('return 1')(); return 'ran' } catch (error) { return error.name }"
    assert call(page, "app/format.js", tried) == "EvalError"


def test_past_time_never_shows_the_fog_of_another_time(page: Page) -> None:
    body = "return [m.pictureAt(...a), m.pictureAt(5, a[1], null), m.pictureAt(null, a[1], a[2])]"
    past = {"at": 5, "fog": "past"}
    assert call(page, "pages/fog.js", body, 5, "live", past) == ["past", None, "live"]
    assert call(page, "pages/fog.js", body, 6, "live", past) == [None, None, "live"]


def test_fog_page_shows_no_site_of_the_present_at_a_past_time(page: Page) -> None:
    body = """
    const live = await import("/console/app/live.js");
    const former = window.fetch;
    let answer = () => {};
    const past = new Promise((resolve) => { answer = resolve; });
    const now = Date.now();
    const history = {first: now - 60000, last: now, changes: []};
    const isOfHistory = (url) => `${url}`.includes("history");
    const json = (value, status = 200) => new Response(JSON.stringify(value), {status});
    window.fetch = async (url) => (isOfHistory(url) ? json(history) : past);
    live.fog.set({site_states: [{name: "the-present", reachable: true}]});
    draw(m.FogPage, {route: {parts: [], query: new URLSearchParams()}});
    const slider = () => waitFor(() => element.querySelector("#fog-time"));
    const found = [await seen("1 site")];
    const input = await slider();
    input.value = input.min;
    input.dispatchEvent(new Event("input", {bubbles: true}));
    found.push(await seen("Loading …"), element.textContent.includes("1 site"));
    answer(json({error: {message: "no history"}}, 400));
    found.push(await seen("no history"), element.textContent.includes("1 site"));
    found.push((await slider()) === input);
    remove();
    window.fetch = former;
    return found;
    """
    found = call(page, "pages/fog.js", DRAW + body)
    assert found == [True, True, False, True, False, True]


@pytest.mark.parametrize(
    ("value", "shown"), [("1.50", "1.5"), ("+Inf", "+Inf"), ("-Inf", "-Inf"), ("NaN", "NaN")]
)
def test_values_of_promql_that_are_not_finite_are_shown_as_promql_writes_them(
    page: Page, value: str, shown: str
) -> None:
    body = """
    draw(m.Answer, {answer: {data: {result: [{metric: {}, values: [[1, a[0]]]}]}}});
    const found = element.querySelector("tbody td.right").textContent;
    remove();
    return found;
    """
    assert call(page, "pages/promql.js", DRAW + body, value) == shown
