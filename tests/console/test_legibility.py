"""What the console shows is understood without further knowledge: keys, plots, tables, texts."""

from typing import Any

import pytest
from playwright.sync_api import Page

from analytics_enabler.semantics import check
from tests.support.console_modules import DRAW, call


@pytest.fixture
def page(module_page: Page) -> Page:
    return module_page


def result(bus: str, ts: int, value: float) -> dict[str, Any]:
    return {"insight": "a", "key": {"bus": bus}, "ts": ts, "value": value, "revision": 0}


TICKS = {"every_ms": 10_000, "each_point": False, "lag_ms": 0}
KEYS = """
const {SeriesSet, currentFrom} = await import("/console/parts/series.js");
const set = new SeriesSet();
set.add(a[0]);
const from = currentFrom(set, a[1], a[2]);
const order = m.keysInOrder(set.byId.values(), a[3], from).map((each) => each.key.bus);
return [order, m.countOf(set.byId.values(), from)];
"""


@pytest.mark.parametrize(
    ("order", "buses"),
    [
        ("value", ["later", "late", "oldest", "former"]),
        ("key", ["late", "later", "former", "oldest"]),
        ("time", ["later", "late", "former", "oldest"]),
    ],
)
def test_keys_without_a_current_value_are_last_and_counted_apart(
    page: Page, order: str, buses: list[str]
) -> None:
    results = [
        result("former", 80_000, 900), result("oldest", 50_000, 950), result("later", 100_000, 400),
        result("late", 90_000, 300), result("late", 100_000, 300),
    ]  # fmt: skip
    found = call(page, "parts/keys.js", KEYS, results, TICKS, 101_000, order)
    assert found == [buses, "4 keys: 2 now, 2 earlier"]


@pytest.mark.parametrize(
    ("insight", "now", "count"),
    [
        (TICKS, 105_000, "2 keys: 1 now, 1 earlier"),
        (TICKS, 200_000, "2 keys: 0 now, 2 earlier"),
        ({**TICKS, "lag_ms": 90_000}, 200_000, "2 keys: 1 now, 1 earlier"),
        ({**TICKS, "each_point": True}, 105_000, "2 keys"),
    ],
    ids=["at the latest tick", "long ago", "late results", "at points"],
)
def test_key_is_current_as_long_as_its_value_may_be_the_latest(
    page: Page, insight: dict[str, Any], now: int, count: str
) -> None:
    results = [result("a", 100_000, 1), result("b", 90_000, 1)]
    assert call(page, "parts/keys.js", KEYS, results, insight, now, "value")[1] == count


def test_key_has_the_same_colour_in_each_view(page: Page) -> None:
    names = [f'{{"region":"{name}"}}' for name in ("centre", "east", "north", "south", "west")]
    body = "return a.map((names) => Object.fromEntries(m.coloursOf(names)))"
    one, other, part = call(page, "parts/plot.js", body, names, names[::-1], names[:3])
    assert one == other
    assert len(set(one.values())) == len(names)
    assert part.items() <= one.items()


def line(values: list[float | None], **options: Any) -> dict[str, Any]:
    times = [10 * n for n in range(len(values))]
    return {"label": "a", "colour": "#000000", "times": times, "values": values, **options}


def test_few_values_and_values_without_neighbours_have_dots(page: Page) -> None:
    many = line([1.0, None, *[2.0] * 20])
    few = line([5.0])
    body = "return a.slice(1).map((options) => m.columnsOf(a[0], options).dots)"
    gaps, spanned = call(page, "parts/plot.js", body, [many, few], {}, {"spanGaps": True})
    assert gaps == [None, [0], [0]]
    assert spanned == [None, [], [0]]


def test_line_is_interrupted_at_an_amendment(page: Page) -> None:
    body = "return m.columnsOf([a[0]], {breaks: [10]}).columns"
    times, values = call(page, "parts/plot.js", body, line([1.0, 2.0, 3.0]))
    assert (times, values) == ([0, 0.01, 0.011, 0.02], [1, 2, None, 3])


def test_labels_of_the_axis_of_time_differ(page: Page) -> None:
    body = """
    const labels = (step) => m.timeLabels([0, 1, 2].map((n) => a[0] + n * step), step);
    return [0.01, 1, 60, 86400].map(labels);
    """
    for labels in call(page, "parts/plot.js", body, 1_796_000_000):
        assert len(set(labels)) == 3


NOW = 1_796_000_000_000
TEXT, TIME, NUMBER = ("VARCHAR", "BIGINT", "DOUBLE")


@pytest.mark.parametrize(
    ("columns", "rows", "plotted"),
    [
        ([("ts", TIME), ("mean", NUMBER)], [[NOW, 1], [NOW + 1, 2]], True),
        ([("last", TIME), ("mean", NUMBER)], [[NOW, 1], [NOW + 1, 2]], True),
        ([("n", TIME), ("mean", NUMBER)], [[1, 1], [2, 2]], False),
        (
            [("ts", TIME), ("region", TEXT), ("v", NUMBER)],
            [[NOW + n, region, 1] for n in (0, 1) for region in ("a", "b")],
            True,
        ),
        (
            [("metric", TEXT), ("ts", TIME), ("value", NUMBER)],
            [[metric, NOW + n, 1] for n in (0, 1) for metric in ("delay", "fare")],
            False,
        ),
        (
            [("entity", TEXT), ("ts", TIME), ("value", NUMBER)],
            [["a", NOW, 1], ["b", NOW, 2], ["c", NOW, 3]],
            False,
        ),
        (
            [("region", TEXT), ("ts", TIME), ("v", NUMBER), ("w", NUMBER)],
            [["a", NOW, 1, 1], ["a", NOW + 1, 2, 2]],
            False,
        ),
    ],
    ids=["times", "times of any name", "no times", "regions", "metrics", "one value", "two kinds"],
)
def test_rows_are_plotted_only_if_they_are_numbers_of_one_kind_over_time(
    page: Page, columns: list[tuple[str, str]], rows: list[list[Any]], plotted: bool
) -> None:
    named = [{"name": name, "type": kind} for name, kind in columns]
    body = "return m.plottable(a[0], a[1]) !== null"
    assert call(page, "parts/table.js", body, named, rows) is plotted


def test_times_are_found_by_their_values(page: Page) -> None:
    columns = [
        {"name": name, "type": kind}
        for name, kind in (("last", TIME), ("count", TIME), ("ts", TIME), ("x", NUMBER))
    ]
    body = "return [...m.timeColumns(a[0], a[1])]"
    rows = [[NOW, 5, None, NOW], [NOW + 9, 7, NOW, NOW]]
    assert call(page, "parts/table.js", body, columns, rows) == [0, 2]


def test_amendment_has_its_time_and_the_former_text(page: Page) -> None:
    def ended(name: str, until: int, text: str) -> dict[str, Any]:
        return {"name": name, "until": until, "text": text}

    former = [ended("a", 30, "new"), ended("a", 10, "old"), ended("b", 20, "other")]
    present = {"name": "a", "text": "new"}
    body = "return m.amendmentsOf(a[0], a[1])"
    found = call(page, "pages/results.js", body, former, present)
    assert found == [{"at": 10, "before": "old"}], "the resumption at 30 changes no text"


@pytest.mark.parametrize(
    ("name", "insights", "title"),
    [("buses", ["a"], "buses"), (None, ["a", "b"], "a, b"), (None, [], "d-1")],
)
def test_deployment_without_a_name_is_called_by_its_insights(
    page: Page, name: str | None, insights: list[str], title: str
) -> None:
    named = [{"name": each} for each in insights]
    deployment = {"deployment_id": "d-1", "name": name, "insights": named}
    assert call(page, "app/language.js", "return m.titleOf(a[0])", deployment) == title


RENDERED = DRAW + "draw(m[a[0]], a[1]);"


def test_lines_of_an_error_are_lines(page: Page) -> None:
    error = {"message": "Binder Error\n\u202eCandidates: x", "hint": "Add\na FROM"}
    shown = call(
        page,
        "parts/ui.js",
        RENDERED + "const text = element.textContent; remove(); return text",
        "ErrorNotice",
        {"error": error},
    )
    assert "Binder Error\n⟨U+202E⟩Candidates: x" in shown
    assert "Add\na FROM" in shown


def test_hint_of_sql_leads_to_the_tables_on_the_page(page: Page) -> None:
    error = {"message": "no column", "hint": "docs/sql.md describes the queries."}
    explained = call(page, "pages/sql.js", "return m.explained(a[0])", error)
    assert explained["message"] == "no column"
    assert explained["hint"] == "The tables and their columns are listed below the editor."


def test_values_have_their_unit(page: Page) -> None:
    body = "return [m.quantity(12.5, 's'), m.quantity(12.5, null), m.quantity(1, '\\u202ex')]"
    assert call(page, "app/format.js", body) == ["12.5 s", "12.5", "1 ⟨U+202E⟩x"]


PREVIEW = """
const former = window.fetch;
window.fetch = async () => new Response(JSON.stringify(a[2]));
const found = [await seen(a[3])];
draw(m.Preview, {...a[1], text: `${a[1].text} (`, isRight: false, hasErrors: true});
found.push(await seen("Correct the errors"), element.textContent.includes(a[3]));
remove();
window.fetch = former;
return found;
"""


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"results": [result("bus-1", 5000, 7)], "units": {"a": "s"}}, "7 s"),
        ({"results": [], "silent": {"a": "its condition was never true"}}, "Its condition was"),
        ({"results": []}, "a limit that is too high"),
    ],
    ids=["values with their unit", "reason", "no reason"],
)
def test_preview_leaves_when_the_text_has_errors(
    page: Page, answer: dict[str, Any], shown: str
) -> None:
    text = "a = COMPUTE MAX(delay, 1 MINUTE) BY bus EVERY 1 SECOND"
    answer = {"insights": ["a"], "problems": [], "from": 0, "to": 5000, "took_ms": 1, **answer}
    properties = {"text": text, "isRight": True}
    found = call(page, "pages/preview.js", RENDERED + PREVIEW, "Preview", properties, answer, shown)
    assert found == [True, True, False]


def test_insights_of_a_fragment_begin_with_the_latest_deployed(page: Page) -> None:
    body = "return m.latestFirst(a[0], new Map(a[1]))"
    deployed = [["d-1", {"created_at": 1}], ["d-2", {"created_at": 2}]]
    shown = call(page, "pages/fog.js", body, ["d-1/a", "d-3/c", "d-2/b"], deployed)
    assert shown == ["d-2/b", "d-1/a", "d-3/c"]


TIP = """
const shown = () => element.querySelector("[role=tooltip]")?.textContent ?? "";
const term = element.querySelector(a[2]);
const found = [shown()];
term.dispatchEvent(new FocusEvent("focus"));
await waitFor(shown);
const described = term.getAttribute("aria-describedby");
found.push(shown(), element.querySelector("[role=tooltip]")?.id === described);
term.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
await waitFor(() => !shown());
found.push(shown());
remove();
return found;
"""


@pytest.mark.parametrize(
    ("module", "component", "properties", "element"),
    [
        ("parts/terms.js", "Term", {"name": "fragment"}, ".term"),
        (
            *("parts/ui.js", "SortHead"),
            *({"order": {}, "by": "lag", "about": "A fragment is the part"}, "button"),
        ),
    ],
    ids=["term", "heading"],
)
def test_meaning_of_a_term_is_shown_at_the_focus_of_the_keyboard(
    page: Page, module: str, component: str, properties: dict[str, Any], element: str
) -> None:
    before, at_focus, is_described, after = call(
        page, module, RENDERED + TIP, component, properties, element
    )
    assert (before, after) == ("", "")
    assert at_focus.startswith("A fragment is the part")
    assert is_described


HOVERED = """
const tip = () => element.querySelector("[role=tooltip]");
const mouse = (type) => new MouseEvent(type);
const term = element.querySelector(".term");
term.dispatchEvent(mouse("mouseenter"));
const found = [Boolean(await waitFor(tip))];
term.dispatchEvent(mouse("mouseleave"));
tip().dispatchEvent(mouse("mouseenter"));
await new Promise((each) => setTimeout(each, 400));
found.push(Boolean(tip()));
tip().dispatchEvent(mouse("mouseleave"));
found.push(await waitFor(() => !tip()));
remove();
return found;
"""


def test_meaning_of_a_term_remains_while_the_mouse_is_on_it(page: Page) -> None:
    properties = {"name": "fragment"}
    found = call(page, "parts/terms.js", RENDERED + HOVERED, "Term", properties)
    assert found == [True, True, True]


@pytest.mark.parametrize("metric", ["delay", "bus.fare", "disk read/s", "東京", "by"])
def test_first_text_for_a_metric_has_no_errors(page: Page, metric: str) -> None:
    text = call(page, "parts/draft.js", "return m.textFor(a[0])", metric)
    assert [each for each in check(text).problems if each.severity == "error"] == []
