"""The options after WITH: bound options, the groups that the options determine, and errors."""

import msgspec
import pytest

from analytics.plan.nodes import Plan
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.fragments import PartialsVersion, over_sites, whole
from analytics_enabler.groups import Group
from analytics_enabler.optimizer import optimize
from analytics_enabler.scheduling.model.constraints import HOUR_MS, Constraint, CostCap
from analytics_enabler.semantics import check
from mistbow.streams.signatures import signature_of
from tests.analytics_enabler.support import definition, deployment

AVG = "COMPUTE AVG(x) EVERY 5 s"


def problems(options: str, query: str = AVG) -> list[tuple[str, str]]:
    """Return the diagnostics of ``options``: (underlined text, message) for each diagnostic."""
    text = f"a = {query} WITH {options}"
    found = check(text).problems
    return [(text[p.column - 1 : p.column - 1 + p.length], p.message) for p in found]


def groups(*options: str) -> list[Group]:
    """Return the groups of insights that differ only in their options: one for each text."""
    texts = [f"a{number} = {AVG} WITH {each}" for number, each in enumerate(options)]
    return [generation.group for generation in deployment(";".join(texts)).live]


def test_bound_options() -> None:
    text = f"""a = {AVG} WITH SCHEDULER=latency(margin=0.25) AND COST_CAP 12 PER 1 DAY
        AND PLACEMENT_ON node_id=7 2 DEDICATED AND SIGNATURE 'board'"""
    options = definition(text).options
    assert options.settings == (("margin", 0.25),)
    assert options.cap == CostCap(amount=12, per_ms=24 * HOUR_MS)
    assert options.confined == Constraint(label="node", value="7", count=2, dedicated=True)
    assert options.signature == "board"
    stored = deployment(text)
    assert msgspec.json.decode(msgspec.json.encode(stored), type=Deployment) == stored


def test_insights_with_equal_options_share_a_group() -> None:
    north, south = "PLACEMENT_ON region='north'", "PLACEMENT_ON region='south'"
    found = groups(
        north, f"{north} AND SIGNATURE 'a'", f"SIGNATURE 'a' AND {north}", south, f"{north} 2"
    )
    assert found[1] == found[2]
    assert len({group.id for group in found}) == len(set(found)) == 4
    # An insight with a cost cap or dedicated nodes never shares a group, even with an equal one.
    for alone in ("COST_CAP 1 PER 1 HOUR", f"{north} DEDICATED"):
        one, other = groups(alone, alone)
        assert one.id != other.id


def test_insights_of_different_salience_share_no_group() -> None:
    urgent, never_mind, silent = groups("SALIENCE 5", "SALIENCE 0", "SCHEDULER=fair")
    assert urgent != never_mind == silent
    plan = Plan(insights=())
    version = PartialsVersion(panes=(), grain_ms=1000, lookback_ms=1000, begin=0)
    for group, salience in ((urgent, 5), (silent, 0)):
        tasks = over_sites(group, plan, version, ("n1", "n2"), "n1", 5000) | whole(group, plan, "n")
        assert {fragment.salience for fragment in tasks.values()} == {salience}


def test_stream_names_of_signed_insights_have_signature_and_bounded_length() -> None:
    option = f"SCHEDULER=latency AND SIGNATURE '{'s' * 24}' AND PLACEMENT_ON region='north'"
    (group,) = groups(option)
    at_site = msgspec.structs.replace(group, scope="a site of a very long name")
    partial = f"panes/{group.id}.12345678.a-site-of-a-very-long-nam-123456"
    for stream in (group.results, group.decisions, at_site.results, partial):
        assert signature_of(stream) == "s" * 24
        assert len(stream) <= 100
    assert signature_of(groups("SCHEDULER=fair")[0].results) is None


@pytest.mark.parametrize(
    ("options", "where", "message"),
    [
        ("SIGNATURE 'a' AND SIGNATURE 'b'", "SIGNATURE 'b'", "SIGNATURE is given twice"),
        ("SIGNATURE 'The Board'", "SIGNATURE 'The Board'", "`The Board` is not a valid signature"),
        (
            "SCHEDULER=latency(margn=0.2)",
            "margn=0.2",
            "the scheduler `latency` has no setting `margn`",
        ),
        (
            "SCHEDULER=latency(margin=2)",
            "margin=2",
            "the setting `margin` of `latency`: 2.0 is greater than or equal to the maximum of 1",
        ),
        ("SALIENCE 5 AND SALIENCE 7", "SALIENCE 7", "SALIENCE is given twice"),
        ("SALIENCE 101", "SALIENCE 101", "a SALIENCE of 101 is too high"),
        (
            "ALGORITHM pmcod AND K=5 AND R=0.5",
            "ALGORITHM pmcod AND K=5 AND R=0.5",
            "ALGORITHM is an option of OUTLIER_DETECTION, which is not called here",
        ),
        ("SCHEDULER=fair(a=1)", "a=1", "the scheduler `fair` has no setting `a`"),
        (
            "ALLOW WHEN x > y",
            "",
            "",
        ),
    ],
)
def test_error_of_option(options: str, where: str, message: str) -> None:
    assert problems(options) == ([(where, message)] if message else [])


def test_allow_of_two_metrics_or_with_reference_is_an_error() -> None:
    two = "COMPUTE AVG(x) + AVG(y) EVERY 5 s"
    ((where, message),) = problems("ALLOW WHEN x > y", two)
    assert (where, message) == ("y", "no point has both metrics `x` and `y`")
    text = f"b = {AVG}; a = COMPUTE 2 * INSIGHT b EVERY 5 s WITH ALLOW WHEN site == 'n'"
    (problem,) = check(text).problems
    assert problem.message == "ALLOW does not restrict the points that `b` reads"


@pytest.mark.parametrize(
    ("allowed", "same"),
    [
        # On points: before anything crosses, also what is in BY.
        ('ALLOW WHEN site == "n"', 'AVG(x WHEN site == "n") BY site'),
        ("ALLOW WHEN x < 50", "AVG(x WHEN < 50) BY site"),
        ('ALLOW WHEN (x < 50 AND rack == "r")', 'AVG(x WHEN < 50 AND rack == "r") BY site'),
        # On results.
        ("ALLOW WHEN > 5", "AVG(x) BY site WHEN > 5"),
        ("ALLOW WHEN COUNT(x) > 9", "AVG(x) BY site WHEN COUNT(x) > 9"),
    ],
)
def test_allow_is_a_condition_on_points_or_on_results(allowed: str, same: str) -> None:
    def plan(text: str) -> Plan:
        return optimize(Plan(insights=(definition(text).deployed("q", 0),))).plan

    with_allow = plan(f"a = COMPUTE AVG(x) BY site EVERY 5 s WITH {allowed}")
    assert with_allow == plan(f"a = COMPUTE {same} EVERY 5 s")


def test_allow_restricts_every_metric() -> None:
    text = "a = COMPUTE MAX(x WHEN > 3) WHEN > AVG(y FROM (h)) EVERY 5 s WITH ALLOW WHEN rack == 7"
    same = "a = COMPUTE MAX(x WHEN > 3 AND rack == 7) WHEN > AVG(y FROM (h) WHEN rack == 7)"
    one, other = definition(text), definition(f"{same} EVERY 5 s")
    assert (one.expression, one.filter) == (other.expression, other.filter)
    assert "ALLOW" in one.text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("MAX(x) BY node WHEN (x BY node) > 5|site != 'ward'",
         "MAX(x WHEN site != 'ward') BY node WHEN (x WHEN site != 'ward') > 5"),
        ("MAX(x) WHEN (y + 1 WHEN > 3) > 5|y < 50",
         "MAX(x) WHEN ((y WHEN < 50) + 1 WHEN > 3) > 5"),
        # In parentheses inside of parentheses, and what their WHEN compares is an attribute still.
        ("MAX(x) BY rack WHEN > 1 AND 5 < ((-x BY rack) - 1 WHEN rack > 2)|x < 9",
         "MAX(x WHEN < 9) BY rack WHEN > 1 AND 5 < ((-(x WHEN < 9) BY rack) - 1 WHEN rack > 2)"),
        ("((x + 1) BY node WHEN (y BY node) > 5 AND z == 1)|z != 2",
         "((x WHEN z != 2) + 1 BY node WHEN ((y WHEN z != 2) BY node) > 5 AND z == 1)"),
    ],
)  # fmt: skip
def test_allow_restricts_metrics_in_parentheses_in_conditions(text: str, same: str) -> None:
    query, _, allowed = text.partition("|")
    one = definition(f"a = COMPUTE {query} EVERY 5 s WITH ALLOW WHEN {allowed}")
    other = definition(f"a = COMPUTE {same} EVERY 5 s")
    assert (one.expression, one.filter) == (other.expression, other.filter)
