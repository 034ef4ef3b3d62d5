"""Completions of texts at a caret; ``|`` is the caret."""

import pytest

from analytics.editor_models import Completion, Completions
from analytics_enabler.completion import MAX_ITEMS, Vocabulary, complete
from analytics_enabler.semantics import check

VOCABULARY = Vocabulary(
    metrics={"cpu.util": "CPU", "bus delay": "s", "memory": ""},
    attributes={"region": ["north", "south"], "line": ['7"b', "8"]},
    entities=["bus-1", "bus-2"],
    sites=["edge-1", "cloud"],
    insights=["cpu_now"],
    schedulers=["fair", "latency"],
    operators=["FOURIER"],
)


def completed(text: str) -> Completions:
    before, _, after = text.partition("|")
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return complete(before + after, line, column, VOCABULARY)


def items(text: str) -> dict[str, Completion]:
    return {each.label: each for each in completed(text).items}


@pytest.mark.parametrize(
    ("text", "label", "kind", "insert"),
    [
        ("|", "name = COMPUTE …", "snippet", "name = COMPUTE "),
        ("a |", "= COMPUTE", "snippet", "= COMPUTE "),
        ("a = |", "COMPUTE", "keyword", "COMPUTE "),
        ("a = COMPUTE |", "AVG", "function", "AVG("),
        ("a = COMPUTE |", "INSIGHT", "keyword", "INSIGHT "),
        ("a = COMPUTE PERC|", "PERCENTILE", "function", "PERCENTILE[95]("),
        ("a = COMPUTE AVG(|", "cpu.util", "metric", "cpu.util"),
        ("a = COMPUTE AVG(bus|", "bus delay", "metric", '"bus delay"'),
        ("a = COMPUTE AVG(util|", "cpu.util", "metric", "cpu.util"),
        ("a = COMPUTE AVG(cpu.util, |", "1 MINUTE", "snippet", "1 MINUTE"),
        ("a = COMPUTE AVG(cpu.util, 10 |", "SECONDS", "unit", "SECONDS"),
        ("a = COMPUTE AVG(cpu.util, 10|", "SECONDS", "unit", " SECONDS"),
        ("a = COMPUTE AVG(cpu.util) EVERY 10 |", "POINTS", "unit", "POINTS"),
        ("a = COMPUTE AVG(cpu.util) WHEN > 10 |", "EVERY", "keyword", "EVERY "),
        ("a = COMPUTE AVG(cpu.util FROM (|", "bus-1", "entity", '"bus-1"'),
        ("a = COMPUTE AVG(cpu.util WHEN |", "region", "attribute", "region"),
        ("a = COMPUTE AVG(cpu.util) |", "BY", "keyword", "BY "),
        ("a = COMPUTE AVG(cpu.util) BY |", "region", "attribute", "region"),
        ("a = COMPUTE AVG(cpu.util) BY node, |", "line", "attribute", "line"),
        ("a = COMPUTE AVG(cpu.util) BY node |", "EVERY", "keyword", "EVERY "),
        ("a = COMPUTE AVG(cpu.util) WHEN region == |", "north", "value", '"north"'),
        ("a = COMPUTE AVG(cpu.util) WHEN region == 'n|", "north", "value", "'north'"),
        ("a = COMPUTE AVG(cpu.util) WHEN line IN (|", '7"b', "value", '"7\\"b"'),
        ("a = COMPUTE AVG(cpu.util) WHEN site == |", "edge-1", "site", '"edge-1"'),
        ("a = COMPUTE AVG(cpu.util) EVERY |", "5 SECONDS", "snippet", "5 SECONDS"),
        ("a = COMPUTE AVG(x) EVERY 1 s WITH |", "SALIENCE", "option", "SALIENCE 5"),
        ("a = COMPUTE AVG(x) EVERY 1 s WITH SCHEDULER = |", "latency", "scheduler", "latency"),
        ("a = COMPUTE INSIGHT |", "cpu_now", "insight", "cpu_now"),
        ("a = COMPUTE AVG(x) EVERY 1 s;\nb = COMPUTE FOUR|", "FOURIER", "function", "FOURIER("),
    ],
)
def test_completion_has_what_may_follow(text: str, label: str, kind: str, insert: str) -> None:
    found = items(text)
    assert label in found, list(found)
    assert (found[label].kind, found[label].insert) == (kind, insert)


def test_completion_replaces_the_word_before_the_caret() -> None:
    text = "a = COMPUTE 1;\nb = COMPUTE\n  AV|G(x)"
    found = completed(text)
    assert (found.line, found.column, found.length) == (3, 3, 2)
    assert found.items[0].label == "AVG"


def test_misspelt_word_is_completed_by_the_nearest() -> None:
    assert "MEDIAN" in items("a = COMPUTE MEDAIN|")


def test_clauses_that_are_present_are_not_offered_again() -> None:
    assert items("a = COMPUTE AVG(x) BY node EVERY 5 s |").keys() == {"WITH"}


def test_unit_is_offered_only_where_a_duration_is_expected() -> None:
    assert not {"SECONDS", "MILLIS", "POINTS"} & items("a = COMPUTE AVG(x) WHEN > 10 |").keys()
    assert next(iter(items("a = COMPUTE AVG(x, 10 |"))) == "SECONDS"
    assert "POINTS" not in items("a = COMPUTE AVG(x, 10 |")


@pytest.mark.parametrize(
    "comment", ["-- mine|", "-- |", "// by|", "/* by|", "/* by |*/", "--|\nBY"]
)
def test_nothing_is_offered_in_a_comment(comment: str) -> None:
    assert items(f"a = COMPUTE AVG(x) {comment}") == {}


@pytest.mark.parametrize("comment", ["-- mine\n|", "/* mine */ |", "/* mine */|"])
def test_completion_continues_after_a_comment(comment: str) -> None:
    assert items(f"a = COMPUTE AVG(x) {comment}").keys() == {"BY", "WHEN", "EVERY", "WITH"}


def test_number_of_items_is_bounded() -> None:
    vocabulary = Vocabulary(metrics={f"m{number}": "" for number in range(1000)})
    found = complete("a = COMPUTE AVG(m", 1, 18, vocabulary)
    assert len(found.items) == MAX_ITEMS
    assert found.truncated


@pytest.mark.parametrize("text", ["", "a = 'x", "/* a", "a = COMPUTE AVG((((", ";;;", "\x00é = ("])
def test_completion_accepts_any_text_and_caret(text: str) -> None:
    for line in range(1, 4):
        for column in range(1, len(text) + 3):
            complete(text, line, column, VOCABULARY)


@pytest.mark.parametrize("begun", ["a = COMPUTE ", "a = COMPUTE AVG(x) BY "])
def test_accepted_completions_make_valid_texts(begun: str) -> None:
    for each in completed(f"{begun}|").items:
        if each.kind in ("metric", "attribute"):
            text = f"{begun}{each.insert} EVERY 5 s"
            checked = check(text)
            assert checked.ok, (text, checked.problems)
