"""INSIGHT: the expression that a reference stands for, and errors of references."""

import pytest

from analytics.plan.text import insight_text
from analytics_enabler.semantics import Definition, check
from tests.analytics_enabler.support import definition, definitions

BASE = (
    "now = COMPUTE AVG(cpu) EVERY 5 s; keyed = COMPUTE AVG(cpu, 10 s) BY node EVERY 5 s; "
    "hot = COMPUTE AVG(cpu) BY node WHEN > 9 AND zone == 'a' EVERY 5 s; "
    "so_far = COMPUTE RUNNING_MEAN(cpu) EVERY 5 s; always = COMPUTE AVG(cpu, 10 s); "
    "daily = COMPUTE AVG(cpu) EVERY 1 d AT 8:00 GMT; shifted = COMPUTE cpu - AVG(cpu, 7 s, 3 s);"
    "tenth = COMPUTE AVG(cpu, 10 s) EVERY 10 POINTS; falling = COMPUTE cpu BY node WHEN < 3;"
    "most = COMPUTE MAX(AVG(cpu) BY node) EVERY 5 s; long = COMPUTE AVG(cpu, 1 d);"
    "seventh = COMPUTE cpu EVERY 7 s; adapted = COMPUTE MAX(cpu, 1 m) WITH ADAM;"
    "drift = COMPUTE AVG(cpu, 10 m) - AVG(cpu, 10 m, 5 m) EVERY 1 m;"
    "part = COMPUTE AVG(cpu) EVERY 5 s WITH SAMPLE 0.5"
)
DEPLOYED: dict[str, list[Definition]] = {each.name: [each] for each in definitions(BASE)}

MEANINGS = [
    ("2 * INSIGHT now EVERY 5 s", "2 * AVG(cpu) EVERY 5 s"),
    ("INSIGHT keyed EVERY 5 s", "AVG(cpu, 10 s) BY node EVERY 5 s"),
    ("MAX(INSIGHT keyed) EVERY 5 s", "MAX((AVG(cpu, 10 s) BY node)) EVERY 5 s"),
    ("INSIGHT keyed WHEN node == 'n1' AND > 3 EVERY 5 s",
     "AVG(cpu, 10 s) BY node WHEN node == 'n1' AND > 3 EVERY 5 s"),
    # The size of windows stays at another EVERY.
    ("INSIGHT now EVERY 1 m", "AVG(cpu, 5 s) EVERY 1 m"),
    ("INSIGHT now EVERY 1 d AT 8:00", "AVG(cpu, 5 s) EVERY 1 d AT 8:00"),
    ("INSIGHT daily EVERY 2 d AT 8:00", "AVG(cpu, 1 d) EVERY 2 d AT 8:00"),
    # A running aggregate has no window: it takes all points since the last tick.
    ("INSIGHT so_far EVERY 10 s", "RUNNING_MEAN(cpu) EVERY 10 s"),
    # An insight with values at points also has a value at a tick, and the reverse.
    ("INSIGHT always EVERY 5 s", "AVG(cpu, 10 s) EVERY 5 s"),
    ("MAX(INSIGHT falling) EVERY 5 s", "MAX((cpu BY node WHEN < 3)) EVERY 5 s"),
    ("INSIGHT shifted EVERY 3 s", "cpu - AVG(cpu, 7 s, 3 s) EVERY 3 s"),
    ("2 * INSIGHT falling", "2 * (cpu BY node WHEN < 3)"),
    ("INSIGHT always + INSIGHT so_far", "AVG(cpu, 10 s) + RUNNING_MEAN(cpu)"),
    ("cpu WHEN > INSIGHT now", "cpu WHEN > AVG(cpu, 5 s)"),
    ("1 - INSIGHT shifted EVERY 4 POINTS", "1 - (cpu - AVG(cpu, 7 s, 3 s)) EVERY 4 POINTS"),
    # What is current lasts as long as it takes at the moments of the insight that refers to it.
    ("INSIGHT falling EVERY 7001 MS", "(cpu BY node WHEN < 3) EVERY 7001 MS"),
    ("AVG(x, 17 h) + INSIGHT seventh", "AVG(x, 17 h) + cpu"),
    # The interval of evaluation at points depends on all windows.
    ("AVG(x, 1 h) + INSIGHT long", "AVG(x, 1 h) + AVG(cpu, 1 d)"),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "plain"), MEANINGS)
def test_expression_of_reference(reference: str, plain: str) -> None:
    (wanted,) = definitions(f"a = COMPUTE {plain}")
    (found,) = check(f"a = COMPUTE {reference}", deployed=DEPLOYED).definitions
    assert found.meaning == wanted.meaning
    last = definitions(f"a = COMPUTE {reference}; {BASE}")[0]
    assert last.meaning == wanted.meaning
    assert "INSIGHT" in last.text


@pytest.mark.parametrize("reference", ["drift EVERY 10 m", "shifted EVERY 5 s", "adapted + x"])
def test_offsets_and_adam_of_referred_insight_are_accepted(reference: str) -> None:
    assert check(f"a = COMPUTE INSIGHT {reference}", deployed=DEPLOYED).ok


def test_names_with_dots() -> None:
    text = """hall.north: STREAM FROM storage(room.id="n"); FUNCTION of.all(m.x) {{
        SUM(m.x FROM ({0}), 1 s) }}; {1} = COMPUTE Of.All(cpu.util) EVERY 1 s;
        b = COMPUTE 2 * INSIGHT {1} EVERY 1 s"""
    dotted, plain = (
        definitions(text.replace("hall.north", stream).format(stream, name))
        for stream, name in (("hall.north", "a.now.1"), ("hall", "a"))
    )
    assert [each.name for each in dotted] == ["a.now.1", "b"]
    assert [each.meaning for each in dotted] == [each.meaning for each in plain]


def test_reference_has_keys_and_conditions_of_its_insight() -> None:
    text = "a = COMPUTE SUM(x) / INSIGHT hot WHEN region == 'r' EVERY 10 s"
    (found,) = check(text, deployed=DEPLOYED).definitions
    assert found.by == ("node",)
    assert insight_text(found.deployed("a", 0)) == (
        'insight a = (SUM(x WHEN region == "r", 10 SECONDS) BY nothing) / '
        '(AVG(cpu WHEN zone == "a", 5 SECONDS) WHEN AVG(cpu WHEN zone == "a", 5 SECONDS) > 9) '
        "BY node EVERY 10 SECONDS"
    )


def test_insight_of_text_shadows_running_one() -> None:
    text = "now = COMPUTE MAX(z) EVERY 1 s; a = COMPUTE INSIGHT now EVERY 1 s"
    found = check(text, deployed=DEPLOYED).definitions
    assert found[0].meaning == found[1].meaning


FED = definitions(
    "w: STREAM FROM stream(name='app/w'); fed = COMPUTE AVG(x FROM (w)) EVERY 5 s"
) + definitions("fed = COMPUTE AVG(x) EVERY 5 s")
COUNTS = definitions("counts = COMPUTE AVG(x, 5 s)") + definitions(
    "counts = COMPUTE AVG(x, 5 s) EVERY 3 POINTS"
)
ERRORS = [
    ("INSIGHT nwo EVERY 5 s", "there is no insight `nwo`", "`now`"),
    ("INSIGHT zzzz EVERY 5 s", "there is no insight `zzzz`", "Deploy it first"),
    ("INSIGHT tenth EVERY 5 s", "`tenth` has a value once in 10 points", "an interval"),
    ("x + INSIGHT tenth", "`tenth` has a value once in 10 points", "an interval"),
    ("x + INSIGHT most", "`most` reduces the values of several keys", "Add an EVERY"),
    (
        "AVG(x, 7 s) + INSIGHT long",
        "at points, its window of 1 DAY is evaluated in steps",
        "EVERY 10 SEC",
    ),
    ("x + INSIGHT part", "`part` is computed from samples", "Add an EVERY"),
    ("INSIGHT now BY region EVERY 5 s", "the values here are not by region", "from BY"),
    (
        "(INSIGHT now BY region) + SUM(x) EVERY 5 s",
        "the values here are not by region",
        "Remove region from BY",
    ),
    ("INSIGHT fed EVERY 5 s", "2 deployments have different insights named `fed`", "another"),
    ("INSIGHT counts EVERY 5 s", "2 deployments have different insights", "another"),
    (
        "INSIGHT long EVERY 5 s",
        "the greatest common divisor of its window of 1 DAY and EVERY is",
        "EVERY of at least 1/1",
    ),
    (
        "INSIGHT daily EVERY 1 d AT 8:01 GMT",
        "`daily` has a value every 1 DAY at 08:00 GMT, but `a` is computed every 1 DAY at",
        "to 1 DAY at 08:00 GMT, or to a multiple",
    ),
    ("INSIGHT so_far EVERY 1 d AT 8:00 'Europe/Berlin'", "days are not equally long", "23:59 GMT"),
    ("INSIGHT now EVERY 7 s", "`now` has a value every 5 SECONDS, but `a` is", "5 S"),
    ("MAX(INSIGHT now) BY a EVERY 5 s", "that are reduced here are not by a", "Remove a from BY"),
    ("AVG(x WHEN > INSIGHT now) EVERY 5 s", "about single points", "at the end"),
    ("INSIGHT hot WHEN region == 'r' EVERY 10 s", "but no points are read here", "its attributes"),
    (
        "SUM(x) + (INSIGHT hot WHEN zone == 'a') EVERY 10 s",
        "but no points are read here",
        "Move it",
    ),
    ("INSIGHT a + 1 EVERY 5 s", "`a` refers to itself: a → a", "Remove one"),
    ("INSIGHT two EVERY 5 s", "2 deployments have different insights named `two`", "another"),
]


@pytest.mark.parametrize(("reference", "message", "hint"), ERRORS)
def test_error_of_reference(reference: str, message: str, hint: str) -> None:
    two = [definition(f"two = COMPUTE AVG({metric}) EVERY 5 s") for metric in "xy"]
    deployed = {**DEPLOYED, "two": two, "fed": FED, "counts": COUNTS}
    checked = check(f"a = COMPUTE {reference}", deployed=deployed)
    (problem,) = checked.problems
    assert message in problem.message
    assert hint in (problem.hint or "")


def test_equal_insights_of_several_deployments_resolve() -> None:
    same = [
        definition(f"b = COMPUTE AVG(x) EVERY 5 s{more}") for more in ("", " WITH SCHEDULER=fair")
    ]
    assert check("a = COMPUTE INSIGHT b EVERY 5 s", deployed={"b": same}).ok
    assert not check("a = COMPUTE INSIGHT b EVERY 5 s").ok  # the running insights are unknown


def test_cycle_is_one_error_without_follow_ups() -> None:
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "d"), ("e", "a"), ("f", "e")]
    text = "\n".join(f"{one} = COMPUTE 1 + INSIGHT {other} EVERY 1 s;" for one, other in pairs)
    assert [(p.line, p.message) for p in check(text).problems] == [
        (1, "`a` refers to itself: a → b → c → a"),
        (4, "`d` refers to itself: d → d"),
    ]


def test_reference_to_erroneous_insight_is_no_further_error() -> None:
    text = "a = COMPUTE AVGG(x) EVERY 1 s; b = COMPUTE INSIGHT a EVERY 1 s"
    assert [p.message for p in check(text).problems] == ["there is no function `AVGG`"]


@pytest.mark.parametrize("combined", ["INSIGHT a{0} + INSIGHT a{0}", "1 + INSIGHT a{0}"])
def test_size_of_chained_references_is_bounded(combined: str) -> None:
    chain = [f"a{n} = COMPUTE {combined.format(n - 1)} EVERY 1 s;" for n in range(300, 0, -1)]
    (problem,) = check(" ".join([*chain, "a0 = COMPUTE AVG(x) EVERY 1 s"])).problems
    assert problem.message.endswith("over 10,000 expression nodes or 100 levels")


def test_searches_for_similar_insights_are_bounded() -> None:
    text = "; ".join(f"a{n} = COMPUTE INSIGHT nwo{n} EVERY 5 s" for n in range(200))
    hints = [problem.hint or "" for problem in check(text, deployed=DEPLOYED).problems]
    assert len(hints) == 200
    assert 0 < sum(hint.startswith("Did you mean") for hint in hints) <= 20
