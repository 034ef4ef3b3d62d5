"""The support of logical operators by Spark."""

from collections.abc import Mapping

from analytics.plan.functions import FUNCTIONS
from analytics_worker.panes.mathematics import MATHEMATICAL

OPERATOR_SUPPORT: Mapping[str, str | None] = {
    "Aggregate": "an aggregate must be lowered to a measure of a window first",
    "Value": "the value of a point exists in predicates over points only",
    **dict.fromkeys((
        "Source", "Pane", "Window", "Measure", "Reduction", "TickSeries",
        "Mapped", "Geohash", "PositionGeohash", "Label",
        "Arithmetic", "Negation", "Literal", "Attribute", "Filtered", "Comparison", "Membership",
        "Derived", "Within",
        "And", "Or", "Not", "UserOperator", *FUNCTIONS, *MATHEMATICAL,
    )),
}  # fmt: skip
"""Operator -> the reason why Spark cannot run the operator; None: Spark can run the operator.

Spark reads the sources and aggregates points to panes (``lowering``); all other operators are
functions over Arrow tables, which Spark calls in a task.
"""
