"""Syntax trees as JSON, in the answer of ``explain``."""

import re

from analytics_enabler.explain.tree import tree_of
from grammar import parse

TEXT = """
a = COMPUTE AVG(x WHEN node IN ('n') AND NOT (node == 'm' OR > 1), 1 MINUTE) EVERY 3 POINTS;
b = COMPUTE MAX(y) WITH SAMPLE 0.5 AND SCHEDULER=fair AND COST_CAP 5 PER 1 HOUR;
c = COMPUTE MAX(y) WITH ADAM AND CONFIDENCE 0.9
"""


def test_tree_has_the_names_of_nodes_that_clients_know() -> None:
    trees = [tree_of(statement) for statement in parse(TEXT).statements]
    assert set(re.findall(r"'node': '(\w+)'", str(trees))) == {
        *("Insight", "Call", "MetricStream", "Points", "Name", "Text", "Number", "Elided"),
        *("And", "Or", "Not", "Compare", "Membership"),
        *("Sample", "Scheduler", "CostCap", "Adam"),
    }
