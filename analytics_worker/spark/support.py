"""Which logical operators Spark runs, and why not the others; total."""

from collections.abc import Mapping

from mistbow.panes.mathematical import MATHEMATICAL
from mistbow.plan.contents import CONTENT_OF

SUPPORT: Mapping[str, str | None] = {
    "Aggregate": "each aggregate must have become a measure of a window",
    "Value": "the value of a point is known in predicates over points only",
    **dict.fromkeys((
        "Source", "Pane", "Window", "Measure", "Reduction", "Mapped", "Geohash", "Label",
        "Arithmetic", "Negation", "Literal", "Attribute", "Filtered", "Comparison", "Membership",
        "And", "Or", "Not", "UserOperator", *CONTENT_OF, *MATHEMATICAL,
    )),
}  # fmt: skip
"""By an operator's name; None: supported. Sources are read, points and panes aggregated by Spark
(``lowering``); the rest is a function of Arrow tables, called in one task of it.
"""
